"""`shoal rename`: give a pool another name."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.flags import Parsed
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.verbs import Verb, say
from shoal.errors import InvalidInput

SUMMARY = "give a pool another name"
VERB = Verb("rename [flags] OLD NEW", SUMMARY, LAKE_FLAGS, examples=("shoal rename logs old-logs",))


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _rename)


def _rename(args: Parsed) -> None:
    if len(args.words) != 2:
        raise InvalidInput("two pool names must be provided: the old one and the new one")
    old, new = args.words
    pool = open_lake(args).rename(old, new)
    say(args, f"pool {pool.id} renamed from {old} to {new}")
