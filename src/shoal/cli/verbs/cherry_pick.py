"""`shoal cherry-pick`: apply the changes of one commit to a branch."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Parsed
from shoal.cli.lake import open_pool, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS

VERB = Verb(
    "cherry-pick [flags] COMMIT",
    "apply the changes of one commit to a branch, as a new commit",
    (*COMMIT_FLAGS, *USE_FLAGS, *LAKE_FLAGS),
    "The changes go to the branch of HEAD, or of -use. COMMIT may be on any branch: a commit id, a tag, or a branch,\n"
    "which stands for its last commit.",
    ("shoal cherry-pick 2Z8NPvEDsqN6ZWjNUWxv9PzxvzV", "shoal cherry-pick -use logs@release fix"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    commitish = one_word(args, "commit ID must be specified (see: shoal log)")
    note = read_note(args)
    pool, branch = open_pool(args)
    commit = pool.resolve(commitish) or commitish
    picked = pool.branch(branch).cherry_pick(commit, **note)
    say(args, f'"{branch}": {commit} applied in {picked}')
