"""`shoal update`: change the records that match a filter, as one commit."""

from __future__ import annotations

from shoal.cli.command import Verb, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_branch, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, KEYED_FLAGS, LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "update [flags] -where FILTER PROGRAM",
    "change the records that match a filter by a program",
    (
        Flag("where", str, None, "change the records that match this filter", "FILTER"),
        *KEYED_FLAGS,
        *COMMIT_FLAGS,
        *USE_FLAGS,
        *LAKE_FLAGS,
    ),
    "PROGRAM gets the records and returns them changed; what it returns takes their place. With a primary key,\n"
    "records are followed by it if others change them meanwhile.",
    ("shoal update -where 'status==\"new\"' 'put status:=\"seen\"'",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args["where"] is None:
        raise UsageError("update: which records? (-where FILTER; -where true for all)")
    if len(args.words) != 1:
        raise UsageError("update requires one argument: the program that changes the records")
    note = read_note(args)
    commit = open_branch(args).update(args["where"], args.words[0], on_conflict=args["on-conflict"], **note)
    say(args, f"{commit} update committed")
