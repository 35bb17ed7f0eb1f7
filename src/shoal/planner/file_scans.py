"""Scans of files in columns: the first operators of a query over large files run on batches of their values.

Which those are follows from the program alone: filters, and an aggregation after them. Without either, all values come
out one by one in any case, so that the interpreter reads them one by one. It also reads small files: it is loaded
already, and is done before numpy and Arrow would be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from shoal.api.options import ReadOptions, Watch
from shoal.engines.batches.plans import WAYS, BatchPlan, Fields, Stage
from shoal.engines.interp.engine import goes_deep, needs_names
from shoal.formats.detect import read_fields
from shoal.formats.streams import Place, Source
from shoal.lang import plan
from shoal.lang.rules.fold_constants import CHANGING
from shoal.lang.walk import has_aggregate, nodes, rewrite_sequences
from shoal.planner.engine_choice import THRESHOLDS, named_engine
from shoal.sources.inputs import STDIN, is_url
from shoal.sources.reading import open_input, read_opened

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece


def with_inputs(
    program: plan.Program, paths: Sequence[str], format_name: str, options: ReadOptions, watch: Watch | None = None
) -> plan.Program:
    """A program that reads files itself, in columns, if that is worth it; else the program as it is."""
    size = _size(paths)
    if not paths or not _is_suited(program, size) or not isinstance(program.body[0], plan.DefaultScan):
        return program
    body = _pushed_down(program.body[0], program, program.body[1:], _opener(paths, format_name, options, watch), size)
    return program if body is None else replace(program, body=body)


def with_files(program: plan.Program, options: ReadOptions, watch: Watch | None = None) -> plan.Program:
    """A program in which the files that it names are read in columns where that is worth it."""

    def push_down(seq: plan.Seq) -> plan.Seq:
        match seq:
            case (plan.FileScan(path, format_name) as scan, *ops) if _is_suited(program, size := _size((path,))):
                opener = _opener((path,), format_name, options, watch)
                return _pushed_down(scan, program, tuple(ops), opener, size) or seq
        return seq

    return rewrite_sequences(program, push_down)


def _size(paths: Sequence[str]) -> int:
    """The bytes of local files; 0 if there is anything else among them."""
    try:
        return sum(os.path.getsize(path) for path in paths) if all(map(_is_file, paths)) else 0
    except OSError:
        return 0


def _is_file(path: str) -> bool:
    return path != STDIN and not is_url(path) and os.path.isfile(path)


def _is_suited(program: plan.Program, size: int) -> bool:
    """Whether files are large enough for columns, and the program is made for them."""
    return size > THRESHOLDS.small_file and named_engine(None) != "interp" and depends_on_values_alone(program)


def depends_on_values_alone(program: plan.Program) -> bool:
    """Whether what expressions make of a value depends on that value alone, and can be computed at any depth."""
    is_changing = any(isinstance(node, plan.Call) and node.name in CHANGING for node in nodes(program))
    return not is_changing and not needs_names(program) and not goes_deep(program)


Opener = Callable[[Fields], Iterator["Piece"]]


def _opener(paths: Sequence[str], format_name: str, options: ReadOptions, watch: Watch | None) -> Opener:
    threaded = replace(options, threads=max(options.threads, os.cpu_count() or 1))

    def read_file(path: str, fields: Fields) -> Iterator[Piece]:
        def read(source: Source, name: str, options: ReadOptions, place: Place) -> Iterator[Piece]:
            return read_fields(source, name, options, fields, place)

        return read_opened(read, lambda: open_input(path), format_name, threaded, watch)

    return lambda fields: chain.from_iterable(read_file(path, fields) for path in paths)


def _pushed_down(
    scan: plan.DefaultScan | plan.FileScan, program: plan.Program, ops: plan.Seq, opener: Opener, size: int
) -> plan.Seq | None:
    """The scan and the first operators after it as one plan, and what follows; None if there is nothing to gain."""
    staged = first_stage(scan, ops, program.funcs)
    if staged is None:
        return None
    stage, rest = staged
    ways = WAYS if size > THRESHOLDS.large_file else WAYS[:1]
    return (plan.Physical(BatchPlan(stage, opener, ways)), *rest)


def first_stage(
    scan: plan.DefaultScan | plan.FileScan, ops: plan.Seq, funcs: tuple[plan.Func, ...]
) -> tuple[Stage, plan.Seq] | None:
    """The operators after a scan that batches are worth it for, and those after them."""
    filters = [] if scan.filter is None else [plan.Filter(scan.filter)]
    for op in ops:
        if not isinstance(op, plan.Filter) or has_aggregate(op.expr, funcs):
            break
        filters.append(op)
    left = ops[len(filters) - (scan.filter is not None) :]
    match left:
        case (plan.Summarize() as summarize, *rest):
            return Stage(tuple(filters), summarize, scan.fields, funcs), tuple(rest)
        case _ if filters:
            return Stage(tuple(filters), None, None, funcs), left
    return None
