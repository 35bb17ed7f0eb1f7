"""`shoal init`: create a lake."""

from __future__ import annotations

from shoal.cli.command import Verb, optional_word, say
from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import LAKE_FLAGS, lake_location
from shoal.client import opening

VERB = Verb(
    "init [flags] [PATH]",
    "create a lake",
    LAKE_FLAGS,
    "Without a path, creates the lake at -lake or SHOAL_LAKE, or else in ~/.local/share/shoal. A lake cannot be\n"
    "created through a service.",
    ("shoal init logs-lake", "SHOAL_LAKE=s3://bucket/lake shoal init"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    path = optional_word(args)
    lake = opening.create(path or lake_location(args, opens=False))
    say(args, f"lake created: {path or lake.uri}")
