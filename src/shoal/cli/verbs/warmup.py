"""`shoal warmup`: make Spark start faster from here on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.cli.command import Verb, say
from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.progress import open_progress
from shoal.errors import InvalidInput
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.engines.spark import archive
else:
    archive = lazy("shoal.engines.spark.archive")


VERB = Verb(
    "warmup",
    "prepare this machine once, so that Spark starts in half the time",
    LAKE_FLAGS,
    "Classes of Spark are kept parsed and verified in one file of the cache directory, about 180 MB, which takes a\n"
    "minute. It belongs to this Java and this version of Spark; do it again after an update of either.",
    ("shoal warmup",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise InvalidInput("warmup takes no arguments")
    with open_progress(args, ()):
        made = archive.build()
    say(args, f"{made} written")
