"""A handle of a pool: it opens without reading, follows other handles, and travels to other processes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lake.conftest import Load

from shoal.errors import NotFound
from shoal.ids import new, to_text
from shoal.lake import changes, lake
from shoal.lake.commits import Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool, open_pool
from shoal.lake.scans import scan
from shoal.model.text import format_value
from shoal.storage.faults import FaultyStore
from shoal.storage.local import LocalStore
from shoal.storage.memory import MemoryStore
from shoal.testing.queries import parse_values


def test_opening_a_pool_reads_nothing(store: MemoryStore, pool: Pool) -> None:
    watched = FaultyStore(store, lambda *_: None)
    opened = open_pool(watched, pool.config)
    assert watched.calls == []
    assert opened.resolve() is None
    assert watched.calls


def test_two_handles_see_what_the_other_commits(store: MemoryStore, pool: Pool, load: Load) -> None:
    other = open_pool(store, pool.config)
    first = load("{k:1}")
    assert other.resolve() == first
    second = load("{k:2}", into=other)
    assert pool.resolve() == second
    assert [commit.id for commit in pool.log(second)] == [second, first]


def test_a_handle_under_another_name_shares_the_pool(pool: Pool, load: Load) -> None:
    renamed = pool.with_config(replace(pool.config, name="events"))
    tip = load("{k:1}")
    assert renamed.journal is pool.journal
    assert renamed.resolve() == tip
    with pytest.raises(NotFound, match='events: there was no branch "main" yet'):
        renamed.resolve("2001-01-01T00:00:00Z")
    with pytest.raises(NotFound, match='logs: there was no branch "main" yet'):
        pool.resolve("2001-01-01T00:00:00Z")


def test_the_objects_of_a_pool_lie_in_the_folder_of_its_id(store: MemoryStore, pool: Pool, load: Load) -> None:
    load("{k:1}")
    assert pool.prefix == to_text(pool.config.id)
    folders = {listed.key.split("/")[1] for listed in store.list(f"{pool.prefix}/")}
    assert folders == {"branches", "columns", "commits", "data"}


def test_what_a_writer_writes_is_seen_only_after_a_commit(store: MemoryStore, pool: Pool) -> None:
    writer = pool.writer()
    for value in parse_values("{k:1} {k:2}"):
        writer.write(value)
    written = writer.close()
    assert list(store.list(f"{pool.prefix}/data/"))
    assert pool.resolve() is None
    tip = pool.committer.commit(changes.load("main", written, Note("tester")))
    assert [o.id for o in pool.snapshot(tip).objects()] == [o.id for o in written]


def test_a_pool_that_was_pickled_reads_the_same_store(tmp_path: Path) -> None:
    created = lake.create(LocalStore(tmp_path / "lake"))
    pool = created.create_pool(PoolConfig(new(), "logs", parse_sort_key("k:desc")))
    writer = pool.writer()
    for value in parse_values("{k:1} {k:2}"):
        writer.write(value)
    pool.committer.commit(changes.load("main", writer.close(), Note("tester")))
    copy: Pool = pickle.loads(pickle.dumps(pool))
    assert copy.config == pool.config
    assert [format_value(value) for value in scan(copy, copy.resolve())] == ["{k:2}", "{k:1}"]
