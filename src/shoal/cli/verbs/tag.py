"""`shoal tag`: create, remove or list tags."""

from __future__ import annotations

from shoal.api.pool import Pool
from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake import edit_refs
from shoal.cli.lake_flags import LAKE_FLAGS, USE_FLAGS
from shoal.cli.output import output_flags

VERB = Verb(
    "tag [flags] [NAME]",
    "create, remove or list tags, names of commits that never move",
    (Flag("d", bool, False, "remove the tag"), *output_flags("lake"), *USE_FLAGS, *LAKE_FLAGS),
    "Tags the commit of HEAD, or of -use. Without a name, lists the tags of the pool.",
    ("shoal tag v1", "shoal tag -use logs@2Z8NPvEDsqN6ZWjNUWxv9PzxvzV audited", "shoal tag -d v1"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    edit_refs(args, "tag", Pool.create_tag, Pool.drop_tag)
