"""Flags of the commands that read files and run queries, and what they mean."""

from __future__ import annotations

import sys

from shoal.api.options import MAX_VALUE_SIZE, Memory, ReadOptions, Statistics
from shoal.cli.flags import Flag, Parsed
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.model import types as t
from shoal.model import values
from shoal.model.text import format_value
from shoal.model.values import Value

INPUT_FLAGS = (
    Flag("i", str, "auto", f"format of the input: {', '.join(registry.readable())}", "FMT"),
    Flag("csv.delim", "character", None, "CSV field delimiter", "C"),
    Flag("zng.validate", bool, True, "validate ZNG input (always done; accepted for scripts)"),
    Flag("zng.threads", int, 0, "accepted for scripts"),
    Flag("zng.readmax", "size", MAX_VALUE_SIZE, "longest value or frame to take in one piece"),
    Flag("zng.readsize", "size", 512 * 1024, "accepted for scripts"),
)
QUERY_FLAGS = (
    Flag("I", str, [], "a file with query text to put in front; may be given several times", "FILE"),
    Flag("s", bool, False, "print what was read to standard error at the end"),
    Flag("C", bool, False, "print the query in canonical form and do not run it"),
)
ENGINE_FLAGS = (
    Flag("engine", str, None, "who reads pools: interp, duckdb, spark or auto (by the bytes to read)", "NAME"),
)
WORK_FLAGS = (
    Flag("engine", str, None, "spark to do the work in tasks, auto to do so if there is very much of it", "NAME"),
)
MEMORY_FLAGS = (
    Flag("aggmem", "size", Memory().aggregate, "memory for one collected value, and for groups"),
    Flag("sortmem", "size", Memory().sort, "memory for a sort before it goes to disk"),
    Flag("fusemem", "size", Memory().fuse, "memory for fuse and shape before they go to disk"),
)


def read_options(args: Parsed) -> ReadOptions:
    """How to read, from the flags."""
    return ReadOptions(csv_delimiter=args["csv.delim"], max_value_size=args["zng.readmax"])


def memory_of(args: Parsed) -> Memory:
    """The limits of memory, from the flags."""
    for name in ("sortmem", "aggmem", "fusemem"):
        if args[name] <= 0:
            raise InvalidInput(f"{name} value must be greater than zero")
    return Memory(sort=args["sortmem"], aggregate=args["aggmem"], fuse=args["fusemem"])


def statistics_value(statistics: Statistics) -> Value:
    """What was read, as a record."""
    names = ("bytes_read", "bytes_matched", "records_read", "records_matched")
    return values.record((name, Value(t.INT64, getattr(statistics, name))) for name in names)


def print_statistics(args: Parsed, statistics: Statistics) -> None:
    """What was read, on standard error, if -s asks for it."""
    if args["s"]:
        print_aside(statistics_value(statistics))


def print_aside(value: Value) -> None:
    """A value on standard error."""
    print(format_value(value), file=sys.stderr)


def print_warning(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr)
