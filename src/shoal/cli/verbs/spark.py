"""`shoal spark`: what Spark clusters need: libraries for executors, and the program for `spark-submit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.command import Verb, say
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.terminal import print_text
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.engines.spark import packing
else:
    packing = lazy("shoal.engines.spark.packing")

VERB = Verb(
    "spark [flags] pack | job",
    "write the libraries that executors of a Spark cluster need",
    (
        Flag("o", str, None, "file to write (default a name with the version of Python)", "FILE"),
        *LAKE_FLAGS,
    ),
    "The package of Shoal travels with each job. Its libraries have native code: install them on the executors, or\n"
    "write them to an archive with this command, and name that in SHOAL_SPARK_LIBRARIES. Executors unpack it.\n"
    "They must have the same version of Python as this machine, and be of the same kind.\n"
    "job prints the path of the program for spark-submit, which takes the commands of shoal.",
    ("shoal spark pack -o libraries.zip", 'spark-submit --master yarn "$(shoal spark job)" manage -engine spark'),
)


def run(args: Parsed) -> None:
    """Run the command."""
    match args.words:
        case ["pack"]:
            _pack(args)
        case ["job"]:
            print_text(str(Path(__file__).parents[2] / "__main__.py"))
        case _:
            raise UsageError("invalid arguments (write: shoal spark pack or shoal spark job)")


def _pack(args: Parsed) -> None:
    target = Path(args["o"] or packing.default_name())
    libraries = packing.pack(target)
    say(args, f"{target} written ({target.stat().st_size >> 20} MiB): {', '.join(libraries)}")
    say(args, f"export SHOAL_SPARK_LIBRARIES={target.absolute()}")
