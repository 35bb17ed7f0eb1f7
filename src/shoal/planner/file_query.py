"""One call from a program and its inputs to results: `shoal.query("count() by host", "log.ndjson").to_pandas()`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from shoal.api.options import DEFAULT_READ, Memory, ReadOptions
from shoal.engines.interp.engine import evaluate, run_program
from shoal.engines.interp.environment import Run
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.frames.inputs import Reading, read_inputs
from shoal.frames.results import Results
from shoal.lang import plan
from shoal.lang.compile import compile_source, reads_input, stands_alone
from shoal.lang.source import Part, Source
from shoal.model.values import NULL, Value
from shoal.planner.file_scans import with_files, with_inputs
from shoal.planner.files import read_part, runs_plans, scan_opener


def query(
    program: str,
    inputs: Any = None,
    *,
    format: str = "auto",  # noqa: A002 - the word for it
    includes: Sequence[str | os.PathLike[str]] = (),
    memory: Memory | None = None,
    csv_delimiter: str | None = None,
    encoding: str | None = None,
    on_debug: Callable[[Value], None] | None = None,
    statistics: bool = False,
    options: ReadOptions = DEFAULT_READ,
) -> Results:
    """What a program makes of its inputs.

    `inputs` may be a path or URL, bytes, a binary file, an Arrow table or a data frame of pandas or
    polars; an iterable of values or of plain Python objects; or a list of any of these, one after the
    other. A str is a path, never data. Without inputs the program has to begin with a source or a
    `yield`. `format` is the format of files and bytes, found out unless given; `encoding` is that of
    text, UTF-8 or what a byte order mark says unless given; `includes` are files with program text to
    put in front; `on_debug` is called with what the operator `debug` sees; with `statistics` it is
    counted how much is read and how much of it is kept; `options` say how files and bytes are read.
    """
    source = Source([*map(read_part, includes), Part("", program)])
    compiled = compile_source(source, evaluate)
    if format != "auto":
        registry.by_name(format).load_reader()
    if csv_delimiter is not None:
        options = replace(options, csv_delimiter=csv_delimiter)
    if encoding is not None:
        options = replace(options, encoding=encoding)
    run = Run(memory=memory or Memory(), emit=emitter(on_debug), measure=statistics)
    runs_plans(run, scan_opener(options))
    _check_inputs(compiled, inputs)
    if not statistics:
        compiled = with_files(with_inputs(compiled, _paths(inputs), format, options), options)
    values = iter((NULL,)) if inputs is None else read_inputs(inputs, Reading(format, options))
    return Results(program, run_program(compiled, values, run), run.statistics)


def emitter(
    on_debug: Callable[[Value], None] | None, on_output: Callable[[str, Value], None] | None = None
) -> Callable[[str, Value], None]:
    """Sends what leaves a query by the side where it belongs."""

    def emit(channel: str, value: Value) -> None:
        if channel != "debug":
            if on_output is not None:
                on_output(channel, value)
        elif on_debug is not None:
            on_debug(value)

    return emit


def _paths(inputs: Any) -> list[str]:
    """The paths that inputs are; none if there is anything else among them."""
    listed = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    are_paths = all(isinstance(path, (str, os.PathLike)) for path in listed)
    return [os.fsdecode(path) for path in listed] if are_paths else []


def _check_inputs(compiled: plan.Program, inputs: Any) -> None:
    """A program that brings its own source takes no inputs; any other has to have some, unless it begins with yield."""
    if inputs is not None and not reads_input(compiled):
        raise InvalidInput("the program brings its own source, and is given inputs, too (remove one of them)")
    if inputs is None and not stands_alone(compiled):
        raise InvalidInput("the program has no inputs (give it some, or begin it with a source or a yield)")
