"""`shoal branch`: create, remove or list branches."""

from __future__ import annotations

from shoal.cli.command import Verb, optional_word, say
from shoal.cli.flags import Flag, Parsed
from shoal.cli.head import head_of
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.meta_query import write_meta
from shoal.cli.output import output_flags
from shoal.errors import InvalidInput

VERB = Verb(
    "branch [flags] [NAME]",
    "create a branch, remove one, or list them",
    (Flag("d", bool, False, "remove the branch"), *output_flags("lake"), *USE_FLAGS, *LAKE_FLAGS),
    "The new branch begins where HEAD, or -use, is. What a removed one held stays until a vacuum. Without a name the\n"
    "branches of the pool are listed.",
    ("shoal branch experiment", "shoal branch -use logs@v1 fix", "shoal branch -d experiment"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    name = optional_word(args)
    head = head_of(args)
    lake = open_lake(args)
    if name is None:
        if args["d"]:
            raise InvalidInput("no branch named (write: shoal branch -d NAME)")
        write_meta(args, lake, "from HEAD:branches", head, mark=head.commitish)
    elif args["d"]:
        if name == "main":
            raise InvalidInput('"main": the main branch is not removed (drop the pool, or revert what is in it)')
        lake.pool(head.pool).drop_branch(name)
        say(args, f"branch deleted: {name}")
    else:
        lake.pool(head.pool).create_branch(name, head.commitish)
        say(args, f'"{name}": branch created')
