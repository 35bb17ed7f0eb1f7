"""`shoal revert`: undo a commit."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Parsed
from shoal.cli.lake import open_pool, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "revert [flags] COMMIT",
    "undo a commit by a new commit that does the opposite",
    (*COMMIT_FLAGS, *USE_FLAGS, *LAKE_FLAGS),
    examples=("shoal revert 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    commitish = one_word(args, "commit ID must be specified (see: shoal log)")
    note = read_note(args)
    pool, branch = open_pool(args)
    commit = pool.resolve(commitish) or commitish
    revert = pool.branch(branch).revert(commit, **note)
    say(args, f'"{branch}": {commit} reverted in {revert}')
