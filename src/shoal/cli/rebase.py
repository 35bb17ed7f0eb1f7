"""`shoal rebase`: replay the commits of a branch on another."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.flags import Parsed
from shoal.cli.lake import open_pool
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.verbs import Verb, one_word, say

SUMMARY = "replay the commits of the branch in use on the tip of another"
VERB = Verb(
    "rebase [flags] BRANCH",
    SUMMARY,
    (*USE_FLAGS, *LAKE_FLAGS),
    "HEAD, or -use, is the branch that moves; BRANCH is the one that it is put on.",
    ("shoal rebase main",),
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _rebase)


def _rebase(args: Parsed) -> None:
    onto = one_word(args, "the branch to rebase onto must be given")
    pool, branch = open_pool(args)
    pool.branch(branch).rebase(onto)
    say(args, f'"{branch}": rebased onto branch "{onto}"')
