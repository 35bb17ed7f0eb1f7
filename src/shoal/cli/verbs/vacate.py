"""`shoal vacate`: cut off old history."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Parsed
from shoal.cli.lake import confirm, open_pool
from shoal.cli.lake_flags import FORCE_FLAG, LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "vacate [flags] COMMIT",
    "remove the history of a pool before a commit",
    (FORCE_FLAG, *USE_FLAGS, *LAKE_FLAGS),
    "Earlier commits can no longer be read. The next vacuum deletes them, with the data that only they refer to.",
    ("shoal vacate -use logs 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    commitish = one_word(args, "commit ID must be specified (see: shoal log)")
    pool, _ = open_pool(args)
    commit = pool.resolve(commitish) or commitish
    confirm(args, f'remove the history of pool "{pool.name}" before {commit}')
    pool.vacate(commit)
    say(args, f"history of {pool.name} begins with {commit}")
