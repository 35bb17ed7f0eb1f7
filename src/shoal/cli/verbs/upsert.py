"""`shoal upsert`: insert records, or replace those with the same primary key, as one commit."""

from __future__ import annotations

from dataclasses import replace

from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_branch, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, KEYED_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.progress import open_progress
from shoal.cli.query_flags import INPUT_FLAGS, MEMORY_FLAGS, check_input, memory_of, read_options
from shoal.cli.reports import REPORT_FLAGS, print_report

VERB = Verb(
    "upsert [flags] FILE...",
    "insert records, or replace those with the same primary key",
    (
        Flag("id", str, None, "id of this upsert, for retries: repeated with the same id, it happens once", "ID"),
        *REPORT_FLAGS,
        *INPUT_FLAGS,
        Flag("json.array", ("records", "value"), "records", "load an array of records as records, or as one value"),
        *KEYED_FLAGS,
        *COMMIT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
        *MEMORY_FLAGS,
    ),
    "The pool needs a primary key (shoal create -primary). All files are one commit. FILE is as for load.",
    ("shoal upsert customers.json", "shoal upsert -on-conflict newest:updated_at -use customers changes.ndjson"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        raise UsageError("upsert: at least one input file must be specified (- for stdin)")
    memory_of(args)
    note, branch = read_note(args), open_branch(args)
    for path in args.words:
        check_input(path)
    options = replace(read_options(args), json_array=args["json.array"])
    with open_progress(args, args.words) as progress:
        commit = branch.upsert(
            args.words,
            format=args["i"],
            options=options,
            on_conflict=args["on-conflict"],
            watch=progress.watch,
            op=args["id"],
            **note,
        )
    print_report(args, branch, commit)
