"""Data objects as engines read them."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import shoal
from shoal.lake import row_form
from shoal.local.lake import LocalLake
from shoal.planner import scan_units
from shoal.planner.scan_units import with_shapes


def test_the_cache_of_shapes_is_bounded_and_drops_the_least_recently_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_units, "SHAPES_CAPACITY", 2)
    monkeypatch.setattr(scan_units, "_shapes", OrderedDict())
    lake = shoal.create("memory://")
    assert isinstance(lake, LocalLake)
    lake.create("wild", key="k")
    for i in range(3):
        lake.pool("wild").load([{"k": j, f"f{i}-{j}": j} for j in range(2000)])
    pool = lake.root.pool("wild")
    objects = [o for o in pool.snapshot(pool.resolve("main")).objects() if o.shapes is None]
    assert len(objects) >= 3
    reads: list[object] = []
    read_all = row_form.read_all

    def counted(store, prefix, o):  # type: ignore[no-untyped-def]
        reads.append(o.id)
        return read_all(store, prefix, o)

    monkeypatch.setattr(row_form, "read_all", counted)
    first, second, third = objects[:3]
    with_shapes(pool, [first, second, first, third])
    assert reads == [first.id, second.id, third.id]
    assert len(scan_units._shapes) == 2
    reads.clear()
    (known,) = with_shapes(pool, [first])
    assert reads == []
    assert known.shapes is not None
    assert sum(count for _, count in known.shapes) == known.count
    with_shapes(pool, [second])
    assert reads == [second.id]
