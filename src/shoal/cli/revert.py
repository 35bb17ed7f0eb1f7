"""`shoal revert`: take a commit back."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.flags import Parsed
from shoal.cli.lake import open_pool, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.cli.verbs import Verb, one_word, say

SUMMARY = "take a commit back, by a new one that does the opposite"
VERB = Verb(
    "revert [flags] COMMIT",
    SUMMARY,
    (*COMMIT_FLAGS, *USE_FLAGS, *LAKE_FLAGS),
    examples=("shoal revert 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV",),
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _revert)


def _revert(args: Parsed) -> None:
    commitish = one_word(args, "commit ID must be specified (see: shoal log)")
    note = read_note(args)
    pool, branch = open_pool(args)
    commit = pool.resolve(commitish) or commitish
    reverting = pool.branch(branch).revert(commit, **note)
    say(args, f'"{branch}": {commit} reverted in {reverting}')
