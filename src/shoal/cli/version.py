"""`shoal version`: which Shoal this is."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.verbs import Verb, version_line

SUMMARY = "print the version"
VERB = Verb("version", SUMMARY, LAKE_FLAGS)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _version)


def _version(args: Parsed) -> None:
    print(version_line())
