"""`shoal detach`: take attached files out of a branch."""

from __future__ import annotations

from shoal.cli.command import Verb, say
from shoal.cli.flags import Parsed, UsageError
from shoal.cli.lake import open_branch, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "detach [flags] URI... | ID...",
    "take attached files out of a branch",
    (*COMMIT_FLAGS, *USE_FLAGS, *LAKE_FLAGS),
    "URI is the path or s3 URL of an attached file, or of a folder, of which all attached files are meant; ID is that\n"
    "of a data object. The files stay where they are, and older commits refer to them still.",
    ("shoal detach events/2024.parquet", "shoal detach -use logs@live s3://bucket/events/"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if not args.words:
        raise UsageError("no attached files named (see: shoal query 'from POOL:attached')")
    note = read_note(args)
    commit = open_branch(args).detach(args.words, **note)
    say(args, f"{commit} detach committed")
