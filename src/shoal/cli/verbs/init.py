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
    "Without a path the lake is created where -lake or SHOAL_LAKE says, else in ~/.local/share/shoal. A service\n"
    "creates none: it serves one that is there.",
    ("shoal init logs-lake", "SHOAL_LAKE=s3://bucket/lake shoal init"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    path = optional_word(args)
    lake = opening.create(path or lake_location(args, opens=False))
    say(args, f"lake created: {path or lake.uri}")
