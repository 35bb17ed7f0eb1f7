"""`shoal warmup`: make Spark start faster from here on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.progress import open_progress
from shoal.cli.verbs import Verb, say
from shoal.errors import InvalidInput
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.engines.spark import archive
else:
    archive = lazy("shoal.engines.spark.archive")


SUMMARY = "prepare this machine once, so that Spark starts in half the time"
VERB = Verb(
    "warmup",
    SUMMARY,
    LAKE_FLAGS,
    "Classes of Spark are kept parsed and verified in one file of the cache directory, about 180 MB, which takes a\n"
    "minute. It belongs to this Java and this version of Spark; do it again after an update of either.",
    ("shoal warmup",),
)


def run(argv: Sequence[str]) -> int:
    """Run the command; the exit status."""
    return VERB.run(argv, _warmup)


def _warmup(args: Parsed) -> None:
    if args.words:
        raise InvalidInput("warmup takes no arguments")
    with open_progress(args, ()):
        made = archive.build()
    say(args, f"{made} written")
