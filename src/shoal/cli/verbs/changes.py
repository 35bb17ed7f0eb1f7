"""`shoal changes`: the changes of records, commit by commit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from shoal.api.changes import NO_CHANGES, ChangeStream
from shoal.cli.command import Verb, stop_signals
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_branch
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.output import OUTPUT_FLAGS, open_writer, output_format
from shoal.cli.query_flags import print_warning
from shoal.formats import registry
from shoal.formats.streams import Writer
from shoal.model.values import Value

VERB = Verb(
    "changes [flags]",
    "list the changes of records on a branch, commit by commit, oldest first",
    (
        Flag("since", str, None, "begin after this time, date, duration before now, commit, or COMMIT/NUMBER", "WHEN"),
        Flag("until", str, None, "end with this time, date, duration before now, or commit", "WHEN"),
        Flag("follow", bool, False, "go on with the changes of commits to come, until interrupted"),
        Flag("exit-after", "duration", None, "with -follow: stop after this time"),
        *OUTPUT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "A change is a record {change,before,after,commit,author,ts}. Compactions change nothing. In a pool with a\n"
    "primary key an update has the record before and after it; without one it is a deletion and an insertion.\n"
    "To go on later, give the last commit as -since, or COMMIT/2 if only the first two of its changes were seen.",
    ("shoal changes -z -since v1", "shoal changes -follow -j -since 3M9ITSlPteFXUdEjJbvFOh5vzzO | ./to-warehouse"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("no arguments allowed (name a branch with -use pool@branch)")
    if args["exit-after"] is not None and not args["follow"]:
        raise UsageError("-exit-after goes with -follow alone")
    if args["follow"] and args["until"] is not None:
        raise UsageError("-until does not go with -follow, which has no end")
    stream = open_branch(args).changes(
        args["since"],
        args["until"],
        follow=args["follow"],
        uniform=registry.by_name(output_format(args, terminal=True)[0]).takes_one_type,
        on_warning=None if args["q"] else print_warning,
    )
    with stream, open_writer(args, shape=NO_CHANGES) as writer:
        if not args["follow"]:
            _write(stream, writer, lambda: False)
            return
        end = None if args["exit-after"] is None else time.monotonic() + args["exit-after"]
        with stop_signals() as stopped:
            _write(stream, writer, lambda: stopped.is_set() or (end is not None and time.monotonic() >= end))


def _write(stream: ChangeStream, writer: Writer, is_over: Callable[[], bool]) -> None:
    """Write changes. What has come is written out where there is no more for the moment."""
    for piece in stream.pieces():
        if isinstance(piece, Value):
            writer.write(piece)
        else:
            for value in piece.values():
                writer.write(value)
        if not isinstance(piece, Value) and not piece.length:
            _flush(writer)
            if is_over():
                return


def _flush(writer: Writer) -> None:
    flush = getattr(writer, "flush", None)
    if flush is not None:
        flush()
    sys.stdout.flush()
