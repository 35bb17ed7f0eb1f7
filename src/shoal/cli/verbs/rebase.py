"""`shoal rebase`: replay the commits of a branch on the tip of another."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Parsed
from shoal.cli.lake import open_pool
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "rebase [flags] BRANCH",
    "replay the commits of the branch in use on the tip of another branch",
    (*USE_FLAGS, *LAKE_FLAGS),
    "Moves the branch of HEAD, or of -use, onto BRANCH.",
    ("shoal rebase main",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    onto = one_word(args, "the branch to rebase onto must be given")
    pool, branch = open_pool(args)
    pool.branch(branch).rebase(onto)
    say(args, f'"{branch}": rebased onto branch "{onto}"')
