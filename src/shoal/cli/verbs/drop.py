"""`shoal drop`: remove a pool."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Parsed
from shoal.cli.lake import confirm, open_lake
from shoal.cli.lake_flags import FORCE_FLAG, LAKE_FLAGS

VERB = Verb(
    "drop [flags] POOL",
    "delete a pool and everything in it",
    (FORCE_FLAG, *LAKE_FLAGS),
    "Deletes the data, all branches and all history at once. This cannot be undone.",
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
