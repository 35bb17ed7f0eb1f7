"""`shoal load`: load data into a branch, as one commit."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.cli.command import Verb, say, stop_signals
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_branch, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.progress import open_progress
from shoal.cli.query_flags import INPUT_FLAGS, MEMORY_FLAGS, WORK_FLAGS, check_input, memory_of, read_options
from shoal.cli.reports import REPORT_FLAGS, print_report
from shoal.lazy import lazy
from shoal.sources.inputs import is_url

if TYPE_CHECKING:
    from shoal.connect import following
else:
    following = lazy("shoal.connect.following")

_WITH_FOLLOW = {"every", "lines", "bytes", "exit-after"}
VERB = Verb(
    "load [flags] FILE...",
    "load files of any format into a branch, as one commit",
    (
        Flag(
            "id",
            str,
            None,
            "id of this load, for retries: a load that is repeated with the same id happens once;\n"
            "with -follow, a name for the input, to go on after the last commit",
            "ID",
        ),
        Flag("follow", bool, False, "load an input as it grows, until interrupted, each batch as one commit"),
        Flag("every", "duration", 1.0, "with -follow: time after which a batch ends"),
        Flag("lines", int, 100_000, "with -follow: lines after which a batch ends"),
        Flag("bytes", "size", 8 << 20, "with -follow: bytes after which a batch ends"),
        Flag("exit-after", "duration", None, "with -follow: stop after this time"),
        *REPORT_FLAGS,
        *WORK_FLAGS,
        *INPUT_FLAGS,
        Flag("json.array", ("records", "value"), "records", "load an array of records as records, or as one value"),
        *COMMIT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
        *MEMORY_FLAGS,
    ),
    "FILE is a path, `-` for standard input, or an http, https or s3 URL. If one of them cannot be read, nothing is\n"
    "loaded. With `-engine spark`, Spark tasks read parts of large files in parallel.\n"
    "With `-follow`, FILE is one file that others append to, or `-`: lines of NDJSON, ZSON, ZJSON, CSV, TSV or text.\n"
    "SIGTERM and SIGINT commit the whole lines that are there, and end it.",
    (
        "shoal load access.json errors.csv.gz",
        "generate | shoal load -use logs@live -message 'by hand' -",
        "shoal load -follow -id web-1 access.ndjson",
    ),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        raise UsageError("load: at least one input file must be specified (- for stdin)")
    memory_of(args)
    if args["follow"]:
        _follow(args)
        return
    if others := sorted(_WITH_FOLLOW & args.given):
        raise UsageError(f"-{others[0]} goes with -follow alone")
    note = read_note(args)
    branch = open_branch(args)
    for path in args.words:
        check_input(path)
    if all(map(_is_empty, args.words)):
        say(args, "nothing to load")
        return
    options = replace(read_options(args), json_array=args["json.array"])
    with open_progress(args, args.words) as progress:
        commit = branch.load(
            args.words,
            format=args["i"],
            options=options,
            engine=args["engine"],
            watch=progress.watch,
            op=args["id"],
            **note,
        )
    print_report(args, branch, commit)


def _follow(args: Parsed) -> None:
    """Load an input as it grows."""
    if len(args.words) != 1 or is_url(args.words[0]):
        raise UsageError("load: -follow takes one file, or - for stdin")
    if args["id"] is not None and args["meta"] is not None:
        raise UsageError("load: -meta does not go with -follow and -id, which keeps the position there")
    limits = following.Limits(args["every"], args["lines"], args["bytes"])
    if min(limits.seconds, limits.lines, limits.size) <= 0:
        raise UsageError("load: -every, -lines and -bytes must be positive")
    branch, note = open_branch(args), read_note(args)
    source: following.Input
    source = following.Pipe(sys.stdin.fileno()) if args.words[0] == "-" else following.GrowingFile(args.words[0])
    until = None if args["exit-after"] is None else time.monotonic() + args["exit-after"]
    with stop_signals() as stopped:
        commits = following.follow(
            branch,
            source,
            limits,
            lambda: stopped.is_set() or (until is not None and time.monotonic() >= until),
            ident=args["id"],
            format_name=args["i"],
            options=replace(read_options(args), json_array=args["json.array"]),
            note=note,
        )
        for commit in commits:
            print_report(args, branch, commit)


def _is_empty(path: str) -> bool:
    """Whether a path is that of a file without a byte. Standard input must have something: a pipe may have broken."""
    return os.path.isfile(path) and os.path.getsize(path) == 0
