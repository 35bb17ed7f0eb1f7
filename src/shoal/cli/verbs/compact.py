"""`shoal compact`: rewrite data objects as sorted ones without overlaps."""

from __future__ import annotations

from shoal.cli.command import Verb, say
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake import open_branch, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.query_flags import WORK_FLAGS

VERB = Verb(
    "compact [flags] ID ID...",
    "rewrite data objects as sorted ones without overlaps",
    (Flag("vectors", bool, False, "accepted for scripts"), *WORK_FLAGS, *COMMIT_FLAGS, *USE_FLAGS, *LAKE_FLAGS),
    "The id of a commit stands for the data objects that it added. Results of queries stay the same. `shoal manage`\n"
    "chooses by itself what to compact.",
    ("shoal compact 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV 2Z8NPy8MkZlbTfXIBUSZJLNhuG5",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    note = read_note(args)
    commit = open_branch(args).compact(args.words, engine=args["engine"], **note)
    say(args, f"{commit} compaction committed")
