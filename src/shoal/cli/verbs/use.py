"""`shoal use`: choose the pool and branch that commands work on."""

from __future__ import annotations

from shoal.cli.command import Verb, optional_word, say
from shoal.cli.flags import Parsed
from shoal.cli.head import parse_head, read_head, write_head
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, lake_location
from shoal.client import opening
from shoal.errors import InvalidInput

VERB = Verb(
    "use [flags] [[POOL][@BRANCH]]",
    "choose the pool and branch that commands work on, or tell which they are",
    LAKE_FLAGS,
    "A pool alone means its branch main, @BRANCH one of the pool that is in use. In place of a branch there may be a\n"
    "tag, the id of a commit or a time, and then nothing can be loaded. The choice is kept in .shoal_head in the\n"
    "directory SHOAL_HEAD_DIR, else at home; -use overrides it for one command.",
    ("shoal use logs", "shoal use @experiment"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    word = optional_word(args)
    if word is None:
        _tell(args)
        return
    head = parse_head(word)
    open_lake(args).pool(head.pool).resolve(head.commitish)
    write_head(head)
    say(args, f'Switched to branch "{head.commitish}" on pool "{head.pool}"')


def _tell(args: Parsed) -> None:
    head = read_head()
    if head is None:
        raise InvalidInput("default pool and branch unset")
    print(f"HEAD at {head}")
    print(f"Lake at {opening.canonical_uri(lake_location(args))}")
