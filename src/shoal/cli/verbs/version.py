"""`shoal version`: print the version."""

from __future__ import annotations

from shoal.cli.command import Verb, version_line
from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.terminal import print_text

VERB = Verb("version", "print the version", LAKE_FLAGS)


def run(args: Parsed) -> None:
    """Run the command."""
    print_text(version_line())
