"""The contract of object stores. A test class inherits `StoreContract` and creates a store."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from shoal.errors import InvalidInput, NotFound
from shoal.storage.store import Created, ObjectStore

BAD_KEYS = [
    "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", ".a", "a/.b", "a b", "a\0b", "a\\b", "é",
    "a%2fb", "x" * 901,
]  # fmt: skip


def _create(store: ObjectStore, key: str, i: int) -> Created:
    return store.create(key, b"%d" % i)


def _rewrite(store: ObjectStore) -> None:
    for c in (b"b", b"a") * 20:
        store.put("head", c * 50_000)


class StoreContract:
    """The contract, as tests."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        """An empty store."""
        raise NotImplementedError

    def test_what_was_put_is_read(self, store: ObjectStore) -> None:
        for data in (b"", b"x", bytes(range(256)) * 1000):
            store.put("a/b", data)
            assert (store.get("a/b"), store.size("a/b")) == (data, len(data))

    def test_a_range_ends_where_the_object_ends(self, store: ObjectStore) -> None:
        store.put("k", b"0123456789")
        parts = [store.get_range("k", *span) for span in ((0, 4), (4, 4), (8, 100), (10, 1), (3, 0))]
        assert parts == [b"0123", b"4567", b"89", b"", b""]

    def test_what_is_not_there_is_not_found(self, store: ObjectStore) -> None:
        store.put("a/b", b"x")
        for key in ("b", "a", "a/b/c", "a/c"):
            for read in (store.get, store.size, lambda k: store.get_range(k, 0, 1)):
                with pytest.raises(NotFound, match=key):
                    read(key)

    def test_an_object_is_dated_when_it_is_written(self, store: ObjectStore) -> None:
        store.put("a/b", b"x")
        (listed,) = store.list("a/b")
        assert abs(store.modified("a/b") - listed.modified) < 1
        if not store.has_own_clock:
            assert abs(store.modified("a/b") - time.time()) < 60
        with pytest.raises(NotFound, match="a/c"):
            store.modified("a/c")

    def test_a_create_lands_once(self, store: ObjectStore) -> None:
        assert store.create("j/1", b"first") is Created.LANDED
        assert store.create("j/1", b"second") is Created.LOST
        assert store.get("j/1") == b"first"
        store.delete("j/1")
        assert store.create("j/1", b"third") is Created.LANDED

    def test_of_many_creates_at_once_one_lands(self, store: ObjectStore) -> None:
        for slot in range(10):
            with ThreadPoolExecutor(8) as pool:
                outcomes = list(pool.map(partial(_create, store, f"j/{slot}"), range(8)))
            assert outcomes.count(Created.LANDED) == 1
            assert outcomes.count(Created.LOST) == 7
            assert store.get(f"j/{slot}") == b"%d" % outcomes.index(Created.LANDED)

    def test_a_reader_sees_one_object_or_the_other(self, store: ObjectStore) -> None:
        store.put("head", b"a" * 50_000)
        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(_rewrite, store)
            while not writing.done():
                assert len(set(store.get("head"))) == 1

    def test_a_listing_has_all_and_nothing_else(self, store: ObjectStore) -> None:
        before = time.time() - 5
        for key in ("a/1", "a/2", "ab/1", "b/c/d", "e"):
            store.put(key, key.encode())
        assert sorted(item.key for item in store.list()) == ["a/1", "a/2", "ab/1", "b/c/d", "e"]
        assert sorted(item.key for item in store.list("a")) == ["a/1", "a/2", "ab/1"]
        assert sorted(item.key for item in store.list("a/")) == ["a/1", "a/2"]
        assert [item.key for item in store.list("b/c/")] == ["b/c/d"]
        assert list(store.list("nothing/here")) == []
        assert all(item.size == len(item.key) and item.modified > before for item in store.list())

    def test_what_is_deleted_is_gone_and_may_be_gone_already(self, store: ObjectStore) -> None:
        store.put("a/b", b"x")
        for _ in range(2):
            store.delete("a/b")
        with pytest.raises(NotFound):
            store.get("a/b")
        assert list(store.list()) == []

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_strange_key_is_refused_before_anything_happens(self, store: ObjectStore, key: str) -> None:
        for act in (store.get, store.size, store.delete, lambda k: store.put(k, b""), lambda k: store.create(k, b"")):
            with pytest.raises(InvalidInput, match="invalid object key"):
                act(key)
        assert list(store.list()) == []
