"""Data that is part of commits: it is read like any other, and a purge takes it out of all metadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from tests.lake.conftest import Load, Read

from shoal.api.pool_settings import PoolSettings
from shoal.errors import Conflict, CorruptData, NotFound
from shoal.ids import Id, new, to_text
from shoal.lake import changes, checkpoints, vacuum
from shoal.lake.actions import patch_of, patch_to
from shoal.lake.commits import Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import Lake
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool, open_pool
from shoal.lake.row_masking import hide_rows
from shoal.lake.scans import scan
from shoal.storage.faults import Crash, Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.testing.queries import parse_values

ME = Note("me")
SECRET = b"the secret"
TEXT = '{k:1,s:"the secret"} {k:2,s:"the secret too"} {k:3,s:"the secret of three"}'


@pytest.fixture
def pool(made: Lake, monkeypatch: pytest.MonkeyPatch) -> Pool:
    """One with inline data, checkpoints every few commits, and pages of two."""
    monkeypatch.setattr("shoal.lake.snapshots.CHECKPOINT_EVERY", 3)
    monkeypatch.setattr(checkpoints, "PAGE", 2)
    return made.create_pool(PoolConfig(new(), "logs", parse_sort_key("k"), settings=PoolSettings(inline=4096)))


def has_secret(pool: Pool) -> list[str]:
    """The objects of the store that have the values."""
    return [each.key for each in pool.store.list() if SECRET in pool.store.get(each.key)]


@pytest.fixture
def told(pool: Pool, load: Load) -> Id:
    """The commit of a secret that was masked, deleted, and is in commits, a root and pages; no branch has it."""
    secret = load(TEXT)
    (o,) = pool.snapshot(secret).objects()
    for k in range(12):
        load(f"{{k:{k + 10}}}")
    patch = patch_to([hide_rows(pool, o, np.array([1], np.int64))])
    changes.rewrite(pool, "main", pool.resolve(), patch, ME, "delete")
    for k in range(4):
        load(f"{{k:{k + 30}}}")
    changes.delete(pool, "main", [o.id], ME)
    assert {key.split("/")[1] for key in has_secret(pool)} == {"commits", "checkpoints", "pages"}
    return secret


def warnings_of(pool: Pool, commit: Id) -> tuple[list[int], list[str]]:
    said: list[str] = []
    return [value.data[0] for value in scan(pool, commit, warn=said.append)], said


@pytest.mark.parametrize("by", ["commit", "object"])
@pytest.mark.parametrize("is_fresh", [False, True], ids=["who read it", "another process"])
def test_a_purge_takes_the_bytes_out_of_all_history(pool: Pool, told: Id, read: Read, by: str, is_fresh: bool) -> None:
    (o,) = pool.snapshot(told).objects()
    before = read()
    target = open_pool(pool.store, pool.config) if is_fresh else pool
    assert vacuum.purge(target, [told if by == "commit" else o.id]) == [o.id]
    assert has_secret(pool) == []
    for handle in (pool, target, open_pool(pool.store, pool.config)):
        keys, said = warnings_of(handle, told)
        assert keys == []
        assert len(said) == 1
        assert to_text(o.id) in said[0]
        assert read(of=handle) == before
        assert [commit.id for commit in handle.log(handle.resolve())][-1] == told


def test_a_purge_of_what_a_branch_has_is_refused(pool: Pool, load: Load, read: Read) -> None:
    secret = load(TEXT)
    with pytest.raises(Conflict, match="still in branch"):
        vacuum.purge(pool, [secret])
    assert len(read()) == 3
    with pytest.raises(NotFound):
        vacuum.purge(pool, [new()])


def test_what_was_purged_does_not_come_back(pool: Pool, told: Id, read: Read) -> None:
    """Neither by a revert, nor by the rebase and the checkpoints of a process that has read it before."""
    other = open_pool(pool.store, pool.config)
    deletion = other.resolve()
    assert deletion is not None
    assert len(warnings_of(other, told)[0]) == 3
    assert len(list(other.log(deletion))) == 19
    before = read()
    vacuum.purge(pool, [told])
    with pytest.raises(Conflict, match="purged"):
        changes.revert(other, "main", deletion, ME)
    other.names.create_branch("empty", None)
    changes.rebase(other, "main", "empty")
    other.names.drop_branch("empty")
    oldest = list(other.log(other.resolve()))[-1].id
    assert oldest != told
    vacuum.vacate(other, oldest)
    assert has_secret(pool) == []
    assert read() == before


def test_damaged_metadata_is_named_and_the_rest_is_cleaned(pool: Pool, told: Id) -> None:
    page = next(each.key for each in pool.store.list(f"{pool.prefix}/pages/"))
    pool.store.put(page, b"damage")
    with pytest.raises(CorruptData, match=page):
        vacuum.purge(pool, [told])
    assert has_secret(pool) == []


def calls_of_a_purge(pool: Pool, told: Id) -> int:
    counted = [0]

    def count(number: int, name: str, key: str) -> None:
        counted[0] = number + 1

    copy = MemoryStore()
    for each in pool.store.list():
        copy.put(each.key, pool.store.get(each.key))
    vacuum.purge(open_pool(FaultyStore(copy, count), pool.config), [told])
    return counted[0]


def copies(pool: Pool, count: int) -> Iterator[MemoryStore]:
    for _ in range(count):
        copy = MemoryStore()
        for each in pool.store.list():
            copy.put(each.key, pool.store.get(each.key))
        yield copy


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
@pytest.mark.parametrize("by", ["commit", "object"])
def test_a_purge_that_crashed_at_any_call_is_finished_by_another(pool: Pool, told: Id, by: str, fault: Fault) -> None:
    (o,) = pool.snapshot(told).objects()
    name = told if by == "commit" else o.id
    values = list(scan(pool, pool.resolve()))
    count = calls_of_a_purge(pool, name)
    assert count > 20
    for at, store in enumerate(copies(pool, count)):

        def choose(number: int, call: str, key: str, at: int = at) -> Fault | None:
            return fault if number == at else None

        with suppress(Crash, NotFound):
            vacuum.purge(open_pool(FaultyStore(store, choose), pool.config), [name])
        left = open_pool(store, pool.config)
        assert list(scan(left, left.resolve())) == values
        assert len(warnings_of(left, told)[0]) in (0, 3)
        vacuum.purge(left, [name])
        assert has_secret(left) == []
        assert warnings_of(left, told)[0] == []


def test_the_metadata_of_a_pool_without_inline_data_is_left_alone(made: Lake, store: MemoryStore) -> None:
    plain = made.create_pool(PoolConfig(new(), "plain", parse_sort_key("k")))
    writer = plain.writer()
    for value in parse_values(TEXT):
        writer.write(value)
    first = plain.committer.commit(changes.load("main", writer.close(), ME))
    changes.rewrite(plain, "main", first, patch_of((), plain.snapshot(first).objects()), ME, "delete")
    before = {each.key: store.get(each.key) for each in store.list(f"{plain.prefix}/commits/")}
    vacuum.purge(plain, [first])
    assert {each.key: store.get(each.key) for each in store.list(f"{plain.prefix}/commits/")} == before
