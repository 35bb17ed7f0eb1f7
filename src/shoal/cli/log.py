"""`shoal log`: the commits of a branch."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.flags import Parsed
from shoal.cli.head import head_of
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.meta_query import write_meta
from shoal.cli.output import output_flags
from shoal.cli.verbs import Verb
from shoal.errors import InvalidInput

SUMMARY = "tell the commits of a branch, newest first"
VERB = Verb(
    "log [flags]",
    SUMMARY,
    (*output_flags("lake"), *USE_FLAGS, *LAKE_FLAGS),
    "In other formats than lake the branches come first, each with its newest commit.",
    ("shoal log", "shoal log -use logs@experiment -f zson"),
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _log)


def _log(args: Parsed) -> None:
    if args.words:
        raise InvalidInput("no arguments allowed (name a branch with -use pool@branch)")
    head = head_of(args)
    lake = open_lake(args)
    lake.pool(head.pool).resolve(head.commitish)
    write_meta(args, lake, "from HEAD:log", head, mark=head.commitish)
