"""`shoal load`: load data into a branch, as one commit."""

from __future__ import annotations

import os
from dataclasses import replace

from shoal.cli.command import Verb, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_branch, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.progress import open_progress
from shoal.cli.query_flags import INPUT_FLAGS, MEMORY_FLAGS, WORK_FLAGS, check_input, memory_of, read_options
from shoal.cli.reports import REPORT_FLAGS, print_report

VERB = Verb(
    "load [flags] FILE...",
    "load files of any format into a branch, as one commit",
    (
        Flag(
            "id", str, None, "id of this load, for retries: a load that is repeated with the same id happens once", "ID"
        ),
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
    "loaded. With `-engine spark`, Spark tasks read parts of large files in parallel.",
    ("shoal load access.json errors.csv.gz", "generate | shoal load -use logs@live -message 'by hand' -"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        raise UsageError("load: at least one input file must be specified (- for stdin)")
    memory_of(args)
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


def _is_empty(path: str) -> bool:
    """Whether a path is that of a file without a byte. Standard input must have something: a pipe may have broken."""
    return os.path.isfile(path) and os.path.getsize(path) == 0
