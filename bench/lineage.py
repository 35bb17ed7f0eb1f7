"""What lineage costs: compactions that say where each row comes from, beside the same without, which take turns.

`python -m bench.lineage` prints seconds of CPU time and bytes. Loads write no lineage: there is nothing to measure.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import shoal
from bench import logs
from bench.tables import Cell, Table
from shoal.api.pool import Pool as PoolHandle
from shoal.lake.identities import Identities
from shoal.lake.objects import DataObject
from shoal.local.lake import stored

_ROUNDS = 5
_NOTE = (
    "CPU seconds, the least of five, each beside one without lineage in turn. Aims: 3 % of the bytes, a ratio of 1.05."
)


@contextmanager
def without_lineage() -> Iterator[None]:
    """Compactions write what they wrote before there was lineage."""
    with patch.object(Identities, "origins", lambda self, o, rows: None):
        yield


def fill(lake: str, records: int, objects: int, is_ordered: bool) -> PoolHandle:
    """A pool of so many objects, each of a stretch of time or of all of it."""
    values = list(logs.generate(records))
    if is_ordered:
        values.sort(key=lambda value: str(value["ts"]))
    pool = shoal.create(lake).create("logs", key="ts")
    for index in range(objects):
        pool.load(values[records * index // objects : records * (index + 1) // objects])
    return pool


def compact(pool: PoolHandle, branch: str) -> float:
    """Compact all objects on a branch of its own; seconds of CPU time."""
    pool.create_branch(branch)
    target = pool.branch(branch)
    ids = [o.id for o in pool.objects(branch)]
    began = time.process_time()
    target.compact(ids, engine="duckdb")
    return time.process_time() - began


def objects_of(pool: PoolHandle, branch: str) -> list[DataObject]:
    """The objects of a branch, as its commits describe them."""
    opened = stored(pool)
    return list(opened.snapshot(opened.resolve(branch)).objects())


def measure(records: int, objects: int, is_ordered: bool, folder: Path) -> tuple[Cell, ...]:
    """Compact with and without lineage, by turns; the fastest of each, and the bytes of both."""
    pool = fill(str(folder / "lake"), records, objects, is_ordered)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(_ROUNDS + 1):
        for has_lineage in (False, True):
            with nullcontext() if has_lineage else without_lineage():
                taken = compact(pool, f"b{number}{has_lineage}")
            if number:  # the first one of each warms up
                seconds[has_lineage].append(taken)
    compacted = objects_of(pool, f"b{_ROUNDS}True")
    assert all(o.lineage is None for o in objects_of(pool, f"b{_ROUNDS}False"))
    data = sum(o.size + o.index_size for o in compacted)
    lineage = sum(o.lineage.size for o in compacted if o.lineage is not None)
    before, after = min(seconds[False]), min(seconds[True])
    share = 100 * lineage / data
    return f"{objects} to {len(compacted)}", data / 1e6, lineage / 1e3, share, before, after, after / before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--objects", type=int, default=15)
    args = parser.parse_args()
    rows = []
    for name, is_ordered in (("interleaved", False), ("ordered by time", True)):
        with tempfile.TemporaryDirectory() as directory:
            rows.append((name, *measure(args.records, args.objects, is_ordered, Path(directory))))
    head = ("keys", "objects", "data MB", "lineage KB", "%", "without s", "with s", "ratio")
    print(Table(f"Compaction of {args.records:,} log records", head, rows, _NOTE))


if __name__ == "__main__":
    main()
