"""Queries over a lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from shoal.access.view import author_of, check_plan, policy_of, pool_to_load
from shoal.api.options import Memory, ReadOptions, Watch
from shoal.engines.interp.engine import evaluate, run_program
from shoal.engines.interp.environment import Run, memory_within
from shoal.engines.stopping import Stop, current, results_stopped_by, stopped_by
from shoal.errors import InvalidInput
from shoal.frames.results import Results
from shoal.lake import changes
from shoal.lake.branches import MAIN
from shoal.lake.commits import Note
from shoal.lake.lake import Lake
from shoal.lang import plan
from shoal.lang.compile import compile_source, stands_alone
from shoal.lang.source import Part, Source
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.values import NULL, Value
from shoal.planner import plan_cache as prepared
from shoal.planner.catalog import LakeCatalog, Views
from shoal.planner.dispatch import Decision, Engine, Handover, choose_engine
from shoal.planner.file_query import emitter
from shoal.planner.opening import OnRead, commit_of, lake_opener
from shoal.planner.plan_cache import Prepared, Text
from shoal.planner.programs import read_part
from shoal.sources.policy import SourcePolicy

_PLAIN = ReadOptions()


@dataclass(frozen=True, slots=True)
class Question:
    """A query and how to run it."""

    program: str
    head: tuple[str, str] | None = None
    """The pool and commitish that a program without a source reads."""
    includes: tuple[str, ...] = ()
    memory: Memory | None = None
    statistics: bool = False
    on_debug: Callable[[Value], None] | None = None
    on_warning: Callable[[str], None] | None = None
    on_read: OnRead | None = None
    views: Views | None = None
    options: ReadOptions = _PLAIN
    watch: Watch | None = None
    engine: str | None = None
    """Which engine reads pools; None is the one of the environment, or whichever is faster."""
    stop: Stop = field(default_factory=current)
    """What stops it."""
    policy: SourcePolicy | None = None
    """What it may read beside pools; None is what the lake says, and that is anything unless it is behind a service."""


def explain(lake: Lake, question: Question) -> list[Decision]:
    """What would be read, and by which engine."""
    handover = Handover(lake, choose_engine(question.engine), None, None, commit_of)
    handover.rewrite(compile_question(lake, question), explain=True)
    return handover.decisions


def compile_question(lake: Lake, question: Question) -> plan.Program:
    """The plan of a query, in which each pool is at one commit."""
    return _compile(lake, _source(question), question)[0]


def _source(question: Question) -> Source:
    return Source([*map(read_part, question.includes), Part("", question.program)])


def _compile(lake: Lake, source: Source, question: Question) -> tuple[plan.Program, LakeCatalog]:
    catalog = LakeCatalog(lake, question.head, question.views)
    compiled = compile_source(source, evaluate, catalog)
    check_plan(lake, compiled, question.policy)
    if not stands_alone(compiled):
        raise InvalidInput("query must include a 'from' operator")
    return compiled, catalog


def _prepare(lake: Lake, question: Question) -> Prepared:
    """The query compiled and handed over to engines, now or when it was last asked."""
    engine: Engine = "interp" if question.statistics else choose_engine(question.engine)
    source = _source(question)
    text = Text(tuple(part.text for part in source.parts), question.head, engine)
    # What a transaction sees is its own, and it has to be told what is read.
    is_common = question.views is None and question.on_read is None
    found = prepared.find(lake, text) if is_common else None
    if found is not None:
        check_plan(lake, found.program, question.policy)
    if found is None:
        compiled, catalog = _compile(lake, source, question)
        handover = Handover(lake, engine, question.on_warning, question.on_read, commit_of)
        found = Prepared(handover.rewrite(compiled), handover, tuple(catalog.positions.items()))
        if is_common:
            prepared.keep(lake, text, found)
    return found


def ask(lake: Lake, question: Question) -> Results:
    """The results of a query."""
    with stopped_by(question.stop):
        made = _prepare(lake, question)
    results = _run(lake, question, made.program, made.handover)
    results.on_spark(lambda times: _on_spark(lake, question, times))
    return results


def _on_spark(lake: Lake, question: Question, times: str) -> Any:
    compiled = compile_question(lake, question)
    return import_module("shoal.planner.spark_frames").frame_of_program(lake, question, compiled, times)


def run_compiled(lake: Lake, question: Question, compiled: plan.Program) -> Results:
    """The results of a query whose plan is made."""
    engine: Engine = "interp" if question.statistics else choose_engine(question.engine)
    handover = Handover(lake, engine, question.on_warning, question.on_read, commit_of)
    return _run(lake, question, handover.rewrite(compiled), handover)


def _run(lake: Lake, question: Question, compiled: plan.Program, handover: Handover) -> Results:
    policy = question.policy or policy_of(lake)
    open_other = lake_opener(lake, question.options, question.on_warning, question.on_read, question.watch, policy)

    def open_scan(scan: plan.Scan) -> Iterator[Value]:
        return handover.open(scan, run) if isinstance(scan, plan.Computed) else open_other(scan)

    run = Run(
        memory=_memory(question, compiled),
        open_scan=open_scan,
        load=lambda op, values: _load(lake, op, values),
        emit=emitter(question.on_debug),
        measure=question.statistics,
        stop=question.stop,
    )
    values = run_program(compiled, iter((NULL,)), run)
    return Results(question.program, results_stopped_by(question.stop, values), run.statistics)


def _memory(question: Question, program: plan.Program) -> Memory:
    limit = question.stop.memory
    return (question.memory or Memory()) if limit is None else memory_within(limit, program)


def _load(lake: Lake, op: plan.Load, values: Iterator[Value]) -> Iterator[Value]:
    """The operator `load`: all values as one commit, of which the id comes out; no values make no commit."""
    lake.require_writable()
    pool = pool_to_load(lake, op.pool)
    branch = op.branch or MAIN
    pool.refs().branch(branch)
    note = Note(op.author or author_of(lake), op.message, parse_value(op.meta) if op.meta else NULL)
    objects = pool.writer().write_all(values)
    if objects:
        yield Value(t.BYTES, pool.committer.join(changes.load(branch, objects, note)))
