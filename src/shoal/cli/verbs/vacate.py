"""`shoal vacate`: let history begin later."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.confirm import confirm
from shoal.cli.flags import Parsed
from shoal.cli.lake import open_pool
from shoal.cli.lake_flags import FORCE_FLAG, LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "vacate [flags] COMMIT",
    "let the history of a pool begin with a commit",
    (FORCE_FLAG, *USE_FLAGS, *LAKE_FLAGS),
    "Commits before it can no longer be read; the next vacuum removes them, with the data that only they had.",
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
