"""`shoal doctor`: check that this machine, and with -spark a cluster, can work with the lake."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from shoal.cli.command import Verb
from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS, lake_location
from shoal.cli.output import open_writer, output_flags
from shoal.client.address import is_service
from shoal.errors import ShoalError, Unsupported
from shoal.extras import LIBRARIES
from shoal.lazy import lazy
from shoal.model.values import FALSE, TRUE, Value, record, string
from shoal.version import VERSION

if TYPE_CHECKING:
    from shoal.engines.spark import checks, installation
    from shoal.planner import reach
else:
    checks = lazy("shoal.engines.spark.checks")
    installation = lazy("shoal.engines.spark.installation")
    reach = lazy("shoal.planner.reach")

VERB = Verb(
    "doctor [flags]",
    "check that this machine, and with -spark a cluster, can work with the lake",
    (
        Flag("spark", bool, False, "run a task on each executor of the Spark at SHOAL_SPARK_MASTER"),
        *output_flags("table"),
        *LAKE_FLAGS,
    ),
    "Prints a line for each check. The exit status is 1 if one of them fails. With -spark, a task on each executor\n"
    "reports its Python, libraries, memory and clock, and whether it reaches the lake.",
    ("shoal doctor", "SHOAL_SPARK_MASTER=spark://host:7077 shoal doctor -spark -lake s3://bucket/lake"),
)


def run(args: Parsed) -> None:
    """Run the command."""
    if args.words:
        raise UsageError("no arguments allowed (name a lake with -lake)")
    failed = 0
    with open_writer(args) as writer:
        for name, is_ok, text in _checks(args):
            failed += not is_ok
            writer.write(_row(name, is_ok, text))
    if failed:
        raise Unsupported(f"{failed} {'check' if failed == 1 else 'checks'} failed")


Check = tuple[str, bool, str]


def _checks(args: Parsed) -> Iterator[Check]:
    yield "shoal", True, f"{VERSION}, Python {platform.python_version()}"
    # Commands hide pandas from pyarrow, so the path itself is searched.
    extras = sorted({extra for module, extra in LIBRARIES.items() if PathFinder.find_spec(module)})
    yield "extras", True, ", ".join(extras) or "none"
    location = lake_location(args)
    try:
        status = open_lake(args).status()
        yield "lake", True, f"{status.uri}, {status.pools} pools"
    except ShoalError as e:
        yield "lake", False, str(e)
        return
    if args["spark"]:
        if is_service(location):
            raise UsageError("-spark checks a lake at a path or the URI of a store, not a service")
        yield from _spark(status.uri)


def _spark(lake: str) -> Iterator[Check]:
    try:
        yield "java", True, str(installation.find_java())
        executors, offset = reach.look_from_executors(lake)
    except ShoalError as e:
        yield "spark", False, str(e)
        return
    yield "spark", True, f"{len(executors)} executors"
    for executor in executors:
        libraries = ", ".join(f"{name} {version}" for name, version in executor.libraries)
        seen = executor.lake or "reaches the lake"
        text = (
            f"Python {executor.python}, {executor.memory / (1 << 30):.0f} GiB, clock {offset(executor):+.1f} s,"
            f" {seen}; {libraries}"
        )
        yield f"executor {executor.host}", not executor.lake and abs(offset(executor)) < checks.CLOCK_LIMIT, text


def _row(name: str, is_ok: bool, text: str) -> Value:
    return record([("check", string(name)), ("ok", TRUE if is_ok else FALSE), ("result", string(text))])
