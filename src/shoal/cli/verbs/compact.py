"""`shoal compact`: merge data objects into sorted ones that do not overlap."""

from __future__ import annotations

from shoal.cli.command import Verb, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_branch, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.query_flags import WORK_FLAGS

VERB = Verb(
    "compact [flags] ID ID...",
    "merge data objects into sorted ones that do not overlap",
    (Flag("vectors", bool, False, "accepted for scripts"), *WORK_FLAGS, *COMMIT_FLAGS, *USE_FLAGS, *LAKE_FLAGS),
    "A commit id stands for the data objects that the commit added. Query results stay the same. To let Shoal choose\n"
    "what to compact, use `shoal manage`.",
    ("shoal compact 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV 2Z8NPy8MkZlbTfXIBUSZJLNhuG5",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        raise UsageError("no data objects named (see: shoal query 'from POOL:objects')")
    note = read_note(args)
    commit = open_branch(args).compact(args.words, engine=args["engine"], **note)
    say(args, f"{commit} compaction committed")
