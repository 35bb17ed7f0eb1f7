"""What runs first in a Python worker of an executor, where Shoal may not be installed.

Spark sends this module by value, since it cannot be imported there yet. So it uses the standard library alone, and
imports Shoal in functions: the package that came with the job, and libraries that are installed or came in an archive.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import pickle
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

LIBRARIES_FOLDER = "shoal_libraries"
"""The name under which executors unpack the archive that `shoal spark pack` writes."""


Shipment = tuple[str, tuple[str, ...]]
"""What a worker has to have before it runs a step: the version of Shoal, and the modules that tasks import."""


def prepare(shipment: Shipment | None) -> None:
    """Find the package and its libraries, once in a worker; None if it is this machine, which has them.

    RuntimeError, which the driver translates, if something is missing.
    """
    if shipment is None or getattr(sys, "_shoal_prepared", None) == shipment:
        return
    version, modules = shipment
    _add_libraries()
    package = importlib.util.find_spec("shoal")
    if package is None:
        raise RuntimeError(f"shoal.errors.Unsupported: {_executor()} did not get the package of Shoal")
    installed = _version(package.origin or "")
    if installed != version:
        raise RuntimeError(
            f"shoal.errors.Unsupported: {_executor()} has Shoal {installed}, and the driver {version}"
            f" (install {version} there, or uninstall it: the package travels with the job)"
        )
    lacking = [name for name in modules if importlib.util.find_spec(name) is None]
    if lacking:
        raise RuntimeError(
            f"shoal.errors.Unsupported: {_executor()} lacks {', '.join(lacking)} (install it there, or send it along:"
            " shoal spark pack writes an archive for SHOAL_SPARK_LIBRARIES)"
        )
    sys._shoal_prepared = shipment  # type: ignore[attr-defined]


def _add_libraries() -> None:
    """Put the archive on the path. A session of Spark Connect works in a folder below that of its executor."""
    from pyspark import SparkFiles  # noqa: PLC0415 - a worker has it

    for folder in dict.fromkeys((SparkFiles.getRootDirectory(), os.getcwd(), os.path.dirname(os.getcwd()))):
        path = os.path.join(folder, LIBRARIES_FOLDER)
        if os.path.isdir(path) and path not in sys.path:
            sys.path.insert(1, path)
            importlib.invalidate_caches()
            return


def _version(origin: str) -> str:
    """The version of the package at a path: it is in the name of a zip that came with a job."""
    sent = re.search(r"shoal-([^-/]+)-[0-9a-f]{16}\.zip", origin)
    return sent[1] if sent else importlib.metadata.version("shoal")


def _executor() -> str:
    return f"executor {platform.node()} (Python {platform.python_version()})"


def as_they_are(rows: Iterable[Any]) -> Iterable[Any]:
    """The rows of a partition that a job collects."""
    return rows


def second_of_pairs(pairs: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """The rows that a partition was sent, without its number."""
    return (row for _, row in pairs)


def on_rows(shipment: Shipment | None, steps: tuple[bytes, ...]) -> Callable[..., Iterator[Any]]:
    """The function of a partition of an RDD: its number and its rows go through the steps, one after the other."""

    def run(task: int, rows: Iterable[Any]) -> Iterator[Any]:
        prepare(shipment)
        for step in steps:
            work, args = pickle.loads(step)  # noqa: S301 - from our driver
            rows = work(task, rows, *args)
        return iter(rows)

    return run


def on_batches(
    shipment: Shipment | None, steps: tuple[bytes, ...], is_sending: bool
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of `mapInArrow`: rows come and go in batches of two columns, the number of a partition and bytes.

    The last step may send rows to partitions, in pairs; the rows of other steps stay in theirs.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - Spark has imported it by now

        prepare(shipment)
        first = next(batches, None)
        while first is not None and not first.num_rows:
            first = next(batches, None)
        if first is None:
            return
        task = first.column(0)[0].as_py()

        def received() -> Iterator[bytes]:
            for batch in (first, *batches):
                yield from (row.as_py() for row in batch.column(1))

        rows: Iterable[Any] = received()
        for step in steps:
            work, args = pickle.loads(step)  # noqa: S301 - from our driver
            rows = work(task, rows, *args)
        for row in rows:
            bucket, data = row if is_sending else (task, row)
            yield pa.RecordBatch.from_arrays(
                [pa.array([bucket], pa.int32()), pa.array([data], pa.binary())], ["bucket", "row"]
            )

    return run


def on_frame(shipment: Shipment | None, step: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of `mapInArrow` over a DataFrame of the user: what it gives is for one step."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        prepare(shipment)
        work, args = pickle.loads(step)  # noqa: S301 - from our driver
        return iter(work(batches, *args))

    return run
