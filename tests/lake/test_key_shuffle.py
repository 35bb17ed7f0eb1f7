"""Keys that workers compare: the same rows are replaced as where one process compares them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.api.pool import Pool as Handle
from shoal.errors import AlreadyExists, InvalidInput
from shoal.frames.python_values import from_python
from shoal.lake import key_shuffle, keyed_changes
from shoal.lake.actions import Patch
from shoal.lake.masks import hidden_rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.workers import HERE, Workers
from shoal.local.lake import stored

MANY = Workers(HERE.run, HERE.shuffle, count=5)
KEYS: tuple[Any, ...] = (*range(-5, 300), *(f"k{i}" for i in range(60)), 2.5, 3.0, True, "it's")


def pool_of(settings: dict[str, Any]) -> tuple[Handle, Pool]:
    handle = shoal.create("memory://").create("things", key="at", inline=0, **settings)
    return handle, stored(handle)


def records(dice: Random, keys: list[Any]) -> list[dict[str, Any]]:
    return [{"id": key, "part": {"no": dice.randrange(3)}, "at": dice.randrange(50)} for key in keys]


def masked(pool: Pool, patch: Patch) -> dict[object, list[int]]:
    """The rows that a patch hides, by object."""
    hidden: dict[object, list[int]] = {}
    for before, after in patch.effects():
        if before is not None:
            gone = np.arange(before.rows) if after is None else hidden_rows(pool.store, pool.prefix, after)
            hidden[before.id] = np.setdiff1d(gone, hidden_rows(pool.store, pool.prefix, before)).tolist()
    return hidden


def written(pool: Pool, rows: list[dict[str, Any]]) -> list[DataObject]:
    return pool.writer().write_all(map(from_python, rows))


@pytest.mark.parametrize("primary", ["id", "id,part.no"])
@pytest.mark.parametrize("seed", range(6))
def test_workers_find_the_rows_that_one_process_finds(primary: str, seed: int) -> None:
    dice = Random(seed)
    handle, pool = pool_of({"primary": primary})
    for _ in range(4):
        keys = dice.sample(KEYS, 120)
        handle.upsert(records(dice, list(dict.fromkeys(keys))))  # 3 and 3.0 are one key, in Python as well
    handle.delete(where="at == 7")
    new = written(pool, records(dice, [3, 4, 5, "k1", "k2", 2.5, 7000, "nowhere"]))
    now = pool.snapshot(pool.refs().branch("main").commit)
    expected = keyed_changes.replacing(pool, pool.refs().branch("main").commit, new, keyed_changes.index_of(pool, new))
    found = key_shuffle.replacing(pool, now, new, MANY)
    assert masked(pool, found) == masked(pool, expected) != {}
    assert [o.id for o in found.adds] == [o.id for o in new]


def test_duplicates_and_keys_that_are_there_are_named() -> None:
    dice = Random(1)
    handle, pool = pool_of({"primary": "id"})
    handle.load(records(dice, list(range(1000))))
    now = pool.snapshot(pool.refs().branch("main").commit)
    twice = written(pool, records(dice, [5000, 5001, 5000]))
    with pytest.raises(InvalidInput, match=r"^duplicate records: primary key is given more than once: 5000$"):
        key_shuffle.replacing(pool, now, twice, MANY)
    with pytest.raises(AlreadyExists, match=r'^77: records have this primary key in "main"'):
        key_shuffle.adding(pool, "main", now, written(pool, records(dice, [6000, 77])), MANY)
    fresh = written(pool, records(dice, [6000, 6001]))
    assert [o.id for o in key_shuffle.adding(pool, "main", now, fresh, MANY).adds] == [o.id for o in fresh]


def test_objects_that_cannot_have_a_key_are_not_read() -> None:
    handle = shoal.create("memory://").create("things", key="id", inline=0, primary="id")
    pool = stored(handle)
    for start in range(0, 1000, 100):
        handle.load([{"id": n} for n in range(start, start + 100)])
    new = written(pool, [{"id": n} for n in range(250, 320)])
    touched = key_shuffle.touched_objects(pool, pool.snapshot(pool.refs().branch("main").commit), new)
    assert [(o.min.data, o.max.data) for o in touched] == [(200, 299), (300, 399)]
