"""Row masks: how they are stored, read, checked and kept by a vacuum."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from tests.lake.conftest import Load, Read

from shoal.errors import CorruptData
from shoal.ids import Id, new
from shoal.lake import changes, masks, vacuum
from shoal.lake.actions import patch_to
from shoal.lake.commits import Note
from shoal.lake.objects import DataObject, RowMask
from shoal.lake.pools import Pool, open_pool
from shoal.lake.recent import Recent
from shoal.lake.row_masking import hide_rows
from shoal.model.fields import NO_ID
from shoal.storage.memory import MemoryStore

ME = Note("me")
COUNT = 100


@pytest.fixture(autouse=True)
def forgetful() -> None:
    """Nothing is in the cache."""
    masks.forget()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All masks are objects of their own."""
    monkeypatch.setattr(masks, "MOST_INSIDE", 4)


def the_object(pool: Pool) -> DataObject:
    return next(iter(pool.snapshot(pool.resolve()).objects()))


def mask_of(pool: Pool) -> RowMask:
    mask = the_object(pool).mask
    assert mask is not None
    return mask


def hide(pool: Pool, *rows: int) -> Id:
    patch = patch_to([hide_rows(pool, the_object(pool), np.array(rows, np.int64))])
    return changes.rewrite(pool, "main", pool.resolve(), patch, ME, "delete")


def records(begin: int = 0) -> str:
    return " ".join(f"{{k:{k}}}" for k in range(begin, begin + COUNT))


def keys(pool: Pool) -> list[str]:
    return [each.key for each in pool.store.list(f"{pool.prefix}/masks/")]


def test_a_small_mask_is_part_of_the_description(pool: Pool, load: Load, read: Read) -> None:
    load(records())
    hide(pool, 0, 99)
    assert (mask_of(pool).id, mask_of(pool).count, len(mask_of(pool).data)) == (None, 2, mask_of(pool).size)
    assert keys(pool) == []
    assert len(read()) == COUNT - 2


def test_a_mask_of_more_bytes_than_that_is_an_object(pool: Pool, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load(records())
    o = the_object(pool)
    rows = np.array([0, 3, 50], np.int64)
    size = masks.with_hidden(None, "", o, rows, None).mask.size  # type: ignore[union-attr]
    for most, is_inside in ((size, True), (size - 1, False)):
        monkeypatch.setattr(masks, "MOST_INSIDE", most)
        masked = masks.with_hidden(pool.store, pool.prefix, o, rows, None)
        assert masked.mask is not None
        assert (masked.mask.id is None) is is_inside
        assert masks.hidden_rows(pool.store, pool.prefix, masked).tolist() == [0, 3, 50]
    assert len(keys(pool)) == 1


def test_without_hidden_rows_there_is_no_mask(pool: Pool, load: Load) -> None:
    load(records())
    o = the_object(pool)
    assert masks.with_hidden(pool.store, pool.prefix, o, np.zeros(0, np.int64), None).mask is None
    assert masks.hidden_rows(pool.store, pool.prefix, o).tolist() == []


@pytest.mark.parametrize(
    ("start", "count", "kept"),
    [(0, 3, [True, False, True]), (2, 3, None), (4, 3, [True, False, False]), (7, 2, None), (5, 1, [False])],
)
def test_which_rows_of_a_part_are_visible(start: int, count: int, kept: list[bool] | None) -> None:
    found = masks.visible(np.array([1, 5, 6], np.int64), start, count)
    assert (None if found is None else found.tolist()) == kept


def test_the_cache_is_bounded(pool: Pool, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "_recent", Recent(30, lambda rows: int(rows.nbytes)))
    load(records())
    o = the_object(pool)
    for rows in ([1, 2], [3, 4], [5, 6]):
        masked = masks.with_hidden(None, "", o, np.array(rows, np.int64), None)
        assert masks.hidden_rows(pool.store, pool.prefix, masked).tolist() == rows
    assert masks._recent.used == 16
    assert len(masks._recent) == 1


# ---- damage


def damaged(pool: Pool, read: Read, data: bytes | None) -> str:
    """What a reader says of a mask with other bytes, which it names."""
    (key,) = keys(pool)
    masks.forget()
    if data is None:
        pool.store.delete(key)
    else:
        pool.store.put(key, data)
    with pytest.raises(CorruptData, match=key) as caught:
        read(of=open_pool(pool.store, pool.config))
    return str(caught.value)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("way", ["truncated", "flipped", "zeroed", "empty", "longer", "removed"])
def test_a_mask_that_is_damaged_is_named(pool: Pool, load: Load, read: Read, way: str) -> None:
    load(records())
    hide(pool, 0, 7, 99)
    data = pool.store.get(keys(pool)[0])
    ways = {
        "truncated": data[:-1], "flipped": bytes([*data[:-1], data[-1] ^ 1]), "zeroed": bytes(len(data)), "empty": b"",
        "longer": data + b"\0", "removed": None,
    }  # fmt: skip
    assert "restore" in damaged(pool, read, ways[way])


@pytest.mark.usefixtures("large")
def test_a_mask_that_was_exchanged_for_another_is_named(pool: Pool, load: Load, read: Read) -> None:
    load(records())
    hide(pool, 1, 2)
    other = pool.store.get(keys(pool)[0])
    vacuum_all(pool)
    changes.revert(pool, "main", pool.resolve() or NO_ID, ME)
    hide(pool, 3, 4)
    mine = mask_of(pool)
    masks.forget()
    key = masks.mask_key(pool.prefix, mine.id or NO_ID)
    pool.store.put(key, other)
    with pytest.raises(CorruptData, match=key):
        read(of=open_pool(pool.store, pool.config))


def vacuum_all(pool: Pool) -> None:
    vacuum.collect(pool, 0)


def test_a_mask_that_hides_rows_which_are_not_there_is_damage(pool: Pool, load: Load) -> None:
    load(records())
    o = the_object(pool)
    good = masks.with_hidden(None, "", o, np.array([3, COUNT + 1], np.int64), None)
    with pytest.raises(CorruptData, match="other rows"):
        masks.hidden_rows(pool.store, pool.prefix, good)
    assert good.mask is not None
    more = replace(good, mask=replace(good.mask, count=3))
    with pytest.raises(CorruptData, match="other rows"):
        masks.hidden_rows(pool.store, pool.prefix, more)
    text = replace(good, mask=RowMask(1, b"text", None, 4, zlib.crc32(b"text")))
    with pytest.raises(CorruptData, match="no row mask"):
        masks.hidden_rows(pool.store, pool.prefix, text)


# ---- vacuum


@pytest.mark.usefixtures("large")
def test_a_vacuum_takes_the_masks_that_nothing_reaches(pool: Pool, load: Load, read: Read, store: MemoryStore) -> None:
    load(records())
    hide(pool, 0)
    pool.names.create_branch("side", pool.resolve())
    older = hide(pool, 1)
    hide(pool, 2)
    pool.store.put(masks.mask_key(pool.prefix, new()), b"of nobody")
    assert len(keys(pool)) == 4
    vacuum_all(pool)
    assert len(keys(pool)) == 3
    masks.forget()
    fresh = open_pool(store, pool.config)
    assert [len(read(at, fresh)) for at in ("main", older, "side")] == [COUNT - 3, COUNT - 2, COUNT - 1]


@pytest.mark.usefixtures("large")
def test_masks_before_the_beginning_of_history_go_and_that_of_the_beginning_stays(
    pool: Pool, load: Load, read: Read, store: MemoryStore
) -> None:
    load(records())
    hide(pool, 0)
    vacuum.vacate(pool, hide(pool, 1))
    load("{k:1000}")
    vacuum_all(pool)
    mask = mask_of(pool)
    assert masks.mask_key(pool.prefix, mask.id or NO_ID) in keys(pool)
    masks.forget()
    assert len(read(of=open_pool(store, pool.config))) == COUNT - 2 + 1
