"""`shoal query`: run a query over a lake."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from shoal.cli.command import Verb, optional_word
from shoal.cli.flags import Parsed
from shoal.cli.head import find_head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.output import OUTPUT_FLAGS, open_writer
from shoal.cli.progress import ended_by_first, open_progress, shares_terminal
from shoal.cli.query_flags import (
    ENGINE_FLAGS,
    MEMORY_FLAGS,
    QUERY_FLAGS,
    memory_of,
    print_aside,
    print_statistics,
    print_warning,
)
from shoal.cli.terminal import print_text
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, Source
from shoal.lazy import lazy
from shoal.planner.files import read_part

if TYPE_CHECKING:
    from shoal.lang import printer
else:
    printer = lazy("shoal.lang.printer")

VERB = Verb(
    "query [flags] [QUERY]",
    "run a query over the pools of a lake",
    (*OUTPUT_FLAGS, *QUERY_FLAGS, *ENGINE_FLAGS, *MEMORY_FLAGS, *USE_FLAGS, *LAKE_FLAGS),
    "A query without a `from` reads the branch of HEAD, or of -use.",
    ("shoal query -f table 'count() by status'", "shoal query -z 'from logs@v1 | where status >= 500'"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    program = optional_word(args)
    if program is None and not args["I"]:
        print_text(VERB.help())
    elif args["C"]:
        parts = [*map(read_part, args["I"]), Part("", program or "")]
        print_text(printer.print_program(parse_source(Source(parts))))
    else:
        _run_query(args, program or "")


def _run_query(args: Parsed, program: str) -> None:
    memory = memory_of(args)
    head = find_head(args)
    with ExitStack() as stack:
        progress = stack.enter_context(open_progress(args, ()))
        results = open_lake(args).query(
            program,
            head=None if head is None else str(head),
            includes=args["I"],
            memory=memory,
            statistics=args["s"],
            on_debug=progress.above(print_aside),
            on_warning=None if args["q"] else progress.above(print_warning),
            watch=progress.watch,
            engine=args["engine"],
        )
        stack.enter_context(results)
        writer = stack.enter_context(open_writer(args))
        values = iter(results)
        for value in ended_by_first(values, progress) if shares_terminal(args) else values:
            writer.write(value)
    print_statistics(args, results.statistics)
