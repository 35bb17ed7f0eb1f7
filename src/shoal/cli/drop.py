"""`shoal drop`: remove a pool."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.confirm import confirm
from shoal.cli.flags import Parsed
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import FORCE_FLAG, LAKE_FLAGS
from shoal.cli.verbs import Verb, one_word, say

SUMMARY = "remove a pool with all that is in it"
VERB = Verb(
    "drop [flags] POOL",
    SUMMARY,
    (FORCE_FLAG, *LAKE_FLAGS),
    "The data is gone at once, with all branches and all of history.",
    ("shoal drop logs",),
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _drop)


def _drop(args: Parsed) -> None:
    name = one_word(args, "a single pool name must be specified")
    lake = open_lake(args)
    lake.pool(name)
    confirm(args, f'delete pool "{name}"')
    lake.drop(name)
    say(args, f"pool deleted: {name}")
