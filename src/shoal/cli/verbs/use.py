"""`shoal use`: set or show the pool and branch that commands work on."""

from __future__ import annotations

from shoal.cli.command import Verb, optional_word, say
from shoal.cli.flags import Parsed
from shoal.cli.head import parse_head, read_head, write_head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, lake_location
from shoal.cli.terminal import print_text
from shoal.client import opening
from shoal.errors import InvalidInput

VERB = Verb(
    "use [flags] [[POOL][@BRANCH]]",
    "set the pool and branch that commands work on (HEAD), or show them",
    LAKE_FLAGS,
    "POOL alone stands for its branch main, and @BRANCH for a branch of the pool in use. A tag, a commit id or a time\n"
    "can replace the branch, but then nothing can be loaded. Each lake has a HEAD of its own, stored in .shoal_head\n"
    "in SHOAL_HEAD_DIR, or else in the home directory; -use overrides it for one command.",
    ("shoal use logs", "shoal use @experiment"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    word = optional_word(args)
    if word is None:
        _show(args)
        return
    head = parse_head(word, args)
    open_lake(args).pool(head.pool).resolve(head.commitish)
    write_head(args, head)
    say(args, f'Switched to branch "{head.commitish}" on pool "{head.pool}"')


def _show(args: Parsed) -> None:
    head = read_head(args)
    if head is None:
        raise InvalidInput("default pool and branch unset")
    print_text(f"HEAD at {head}")
    print_text(f"Lake at {opening.canonical_uri(lake_location(args))}")
