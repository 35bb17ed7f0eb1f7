"""`shoal load`: bring data into a branch, as one commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from shoal.cli.flags import Flag, Parsed
from shoal.cli.inputs import check_input
from shoal.cli.lake import open_pool, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS, lake_location
from shoal.cli.progress import open_progress
from shoal.cli.query_flags import INPUT_FLAGS, MEMORY_FLAGS, WORK_FLAGS, memory_of, read_options
from shoal.cli.verbs import Verb, say
from shoal.client.address import is_service
from shoal.errors import InvalidInput
from shoal.local.writing import is_for_tasks
from shoal.sources.reading import read_file_pieces

SUMMARY = "load files of any format into a branch, as one commit"
VERB = Verb(
    "load [flags] FILE...",
    SUMMARY,
    (
        Flag("id", str, None, "an id for this load: repeated with it, the load happens once", "ID"),
        *WORK_FLAGS,
        *INPUT_FLAGS,
        *COMMIT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
        *MEMORY_FLAGS,
    ),
    "A file may be a path, `-` for standard input, or an http, https or s3 URL. If one of them cannot be read,\n"
    "nothing is loaded. With `-engine spark`, large files are read in parts, by tasks.",
    ("shoal load access.json errors.csv.gz", "generate | shoal load -use logs@live -message 'by hand' -"),
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _load)


def _load(args: Parsed) -> None:
    if not args.words:
        raise InvalidInput("load: at least one input file must be specified (- for stdin)")
    memory_of(args)
    note = read_note(args)
    pool, branch = open_pool(args)
    for path in args.words:
        check_input(path)
    options = read_options(args)
    is_sent = is_service(lake_location(args))
    if is_sent or is_for_tasks(args.words, args["engine"]):
        how = {"format": args["i"], "engine": args["engine"], "options": options}
        with open_progress(args, args.words if is_sent else ()):
            commit = pool.load(args.words, branch=branch, id=args["id"], **how, **note)
        say(args, f"{commit} committed")
        return
    with open_progress(args, args.words) as progress:
        options = replace(options, threads=os.cpu_count() or 1)
        pieces = (piece for path in args.words for piece in read_file_pieces(path, args["i"], options, progress.watch))
        commit = pool.load(pieces, branch=branch, id=args["id"], **note)
    say(args, f"{commit} committed")
