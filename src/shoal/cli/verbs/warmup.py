"""`shoal warmup`: prepare this machine for a faster start of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.cli.command import Verb, say
from shoal.cli.flags import Parsed, UsageError
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.progress import open_progress
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.engines.spark import archive
else:
    archive = lazy("shoal.engines.spark.archive")


VERB = Verb(
    "warmup",
    "prepare this machine once, so that Spark starts twice as fast",
    LAKE_FLAGS,
    "Takes about a minute and writes a class data archive of about 180 MB to the cache directory. The archive fits\n"
    "one version of Java and of Spark: run the command again after an update of either.",
    ("shoal warmup",),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("warmup takes no arguments")
    with open_progress(args, ()):
        path = archive.build()
    say(args, f"{path} written")
