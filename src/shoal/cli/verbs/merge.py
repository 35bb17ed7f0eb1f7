"""`shoal merge`: merge one branch into another."""

from __future__ import annotations

from shoal.cli.command import Verb, one_word, say
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake import open_pool, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS, USE_FLAGS
from shoal.errors import InvalidInput

VERB = Verb(
    "merge [flags] BRANCH",
    "merge the branch in use into another branch, as one commit",
    (Flag("f", bool, False, "allow merging main into another branch"), *COMMIT_FLAGS, *USE_FLAGS, *LAKE_FLAGS),
    "Takes the changes from the branch of HEAD, or of -use, and commits them to BRANCH.",
    ("shoal merge main", "shoal merge -use logs@experiment main"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    target = one_word(args, "merge target branch must be given")
    note = read_note(args)
    pool, child = open_pool(args)
    if child == "main" and not args["f"]:
        raise InvalidInput("merging the main branch into another branch is unusual; use -f to force")
    pool.branch(target).merge(child, **note)
    say(args, f'"{child}": merged into branch "{target}"')
