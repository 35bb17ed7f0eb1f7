"""Flags of the commands that read files and run queries."""

from __future__ import annotations

import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from shoal.api.options import MAX_MEMORY, MAX_RATIO, MAX_VALUE_SIZE, Memory, ReadOptions, Statistics
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.terminal import print_text
from shoal.formats import registry
from shoal.model import types as t
from shoal.model import values
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.sources.inputs import STDIN, is_url
from shoal.sources.reading import open_input

_OPTIONS = tuple(f for f in fields(ReadOptions) if f.metadata["param"].startswith(("bad", "csv.")))
"""Options that have a flag of the same name, kind and default."""


def _option_flag(option: Field[Any]) -> Flag:
    facts = option.metadata
    kind = "character" if facts["longest"] == 1 else "count" if option.default == 0 else str
    return Flag(facts["param"], facts["choices"] or kind, option.default, facts["about"], facts["placeholder"])


INPUT_FLAGS = (
    Flag("i", ("auto", *registry.readable()), "auto", f"format of the input: {', '.join(registry.readable())}", "FMT"),
    Flag(
        "encoding",
        str,
        None,
        "encoding of text, such as latin-1 (default: UTF-8, or UTF-16 by its mark)",
        "NAME",
    ),
    *map(_option_flag, _OPTIONS),
    Flag("zng.validate", bool, True, "validate ZNG input (always done; accepted for scripts)"),
    Flag("zng.threads", int, 0, "accepted for scripts"),
    Flag("zng.readmax", "size", MAX_VALUE_SIZE, "largest value or frame to read"),
    Flag("zng.readsize", "size", 512 * 1024, "accepted for scripts"),
    Flag("read.memory", "size", MAX_MEMORY, "memory limit of reading and loading; one value may take half of it"),
    Flag("read.ratio", "count", MAX_RATIO, "how many times its size compressed or encoded input may expand"),
    Flag("arrow.types", str, None, "types of Arrow and Parquet input: plain, or named as in Zed", "plain|zed"),
)
QUERY_FLAGS = (
    Flag("I", str, [], "prepend the query text in this file; may be repeated", "FILE"),
    Flag("s", bool, False, "print statistics to standard error at the end"),
    Flag("C", bool, False, "print the query in canonical form without running it"),
)
_ENGINES = ("auto", "interp", "duckdb", "spark")
ENGINE_FLAGS = (Flag("engine", _ENGINES, None, "engine that reads pools; auto chooses by the bytes to read"),)
WORK_FLAGS = (Flag("engine", _ENGINES, None, "spark runs the work as Spark tasks; auto does so for very large inputs"),)
MEMORY_FLAGS = (
    Flag("aggmem", "size", Memory().aggregate, "memory for groups and for one collected value"),
    Flag("sortmem", "size", Memory().sort, "memory for a sort before it spills to disk"),
    Flag("fusemem", "size", Memory().fuse, "memory for fuse and shape before they spill to disk"),
)


def read_options(args: Parsed) -> ReadOptions:
    """Read options from the flags."""
    return ReadOptions(
        encoding=args["encoding"],
        **{option.name: args[option.metadata["param"]] for option in _OPTIONS},
        max_value_size=args["zng.readmax"],
        max_memory=args["read.memory"],
        max_ratio=args["read.ratio"],
        arrow_types=args["arrow.types"],
    )


def check_input(path: str, output: str = "", must_exist: bool = True) -> None:
    """Fail before any output is written if an input cannot be read, or if it is the output file."""
    if path == STDIN or is_url(path):
        return
    if must_exist and (Path(path).is_file() or not Path(path).exists()):
        open_input(path)[1].close()
    if output and Path(output).exists() and Path(output).samefile(path):
        raise UsageError(f"{path}: input and output are the same file (write to another file)")


def memory_of(args: Parsed) -> Memory:
    """Memory limits from the flags."""
    for name in ("sortmem", "aggmem", "fusemem"):
        if args[name] <= 0:
            raise UsageError(f"{name} value must be greater than zero")
    return Memory(sort=args["sortmem"], aggregate=args["aggmem"], fuse=args["fusemem"])


def statistics_value(statistics: Statistics) -> Value:
    """Statistics as a record."""
    names = ("bytes_read", "bytes_matched", "records_read", "records_matched")
    return values.record((name, Value(t.INT64, getattr(statistics, name))) for name in names)


def print_statistics(args: Parsed, statistics: Statistics) -> None:
    """Print statistics to standard error if -s is given."""
    if args["s"]:
        print_aside(statistics_value(statistics))


def print_aside(value: Value) -> None:
    """Print a value to standard error."""
    print_text(format_value(value), sys.stderr)


def print_warning(text: str) -> None:
    """Print a line to standard error."""
    print_text(text, sys.stderr)
