"""`shoal drop`: remove a pool."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.confirm import confirm
from shoal.cli.flags import Parsed
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import FORCE_FLAG, LAKE_FLAGS

VERB = Verb(
    "drop [flags] POOL",
    "remove a pool with all that is in it",
    (FORCE_FLAG, *LAKE_FLAGS),
    "The data is gone at once, with all branches and all of history.",
    ("shoal drop logs",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    name = one_word(args, "a single pool name must be specified")
    lake = open_lake(args)
    lake.pool(name)
    confirm(args, f'delete pool "{name}"')
    lake.drop(name)
    say(args, f"pool deleted: {name}")
