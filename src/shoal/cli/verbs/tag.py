"""`shoal tag`: create, remove or list tags."""

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
    "tag [flags] [NAME]",
    "give a commit a name that never moves, remove one, or list them",
    (Flag("d", bool, False, "remove the tag"), *output_flags("lake"), *USE_FLAGS, *LAKE_FLAGS),
    "The tag is for the commit that HEAD, or -use, is at. Without a name the tags of the pool are listed.",
    ("shoal tag v1", "shoal tag -use logs@2Z8NPvEDsqN6ZWjNUWxv9PzxvzV audited", "shoal tag -d v1"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    name = optional_word(args)
    head = head_of(args)
    lake = open_lake(args)
    if name is None:
        if args["d"]:
            raise InvalidInput("no tag named (write: shoal tag -d NAME)")
        write_meta(args, lake, "from HEAD:tags", head, mark=head.commitish)
    elif args["d"]:
        lake.pool(head.pool).drop_tag(name)
        say(args, f"tag deleted: {name}")
    else:
        lake.pool(head.pool).create_tag(name, head.commitish)
        say(args, f'"{name}": tag created')
