from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shoal.errors import NotFound, StorageFailure
from shoal.storage.cache import CachedStore
from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import Created
from shoal.testing.store_contract import StoreContract


def always(key: str) -> bool:
    return True


class TestCachedStore(StoreContract):
    """With all keys said to be immutable although they are not: in one process the cache stays honest."""

    @pytest.fixture
    def store(self) -> CachedStore:
        return CachedStore(MemoryStore(), always)


class TestTinyCache(StoreContract):
    @pytest.fixture
    def store(self) -> CachedStore:
        return CachedStore(MemoryStore(), always, 500)


def counted(capacity: int = 100_000, is_immutable: object = always) -> tuple[CachedStore, FaultyStore]:
    """A cache, and the store below it with its list of calls."""
    below = FaultyStore(MemoryStore(), lambda number, name, key: None)
    return CachedStore(below, is_immutable, capacity), below  # type: ignore[arg-type]


def reads(below: FaultyStore) -> list[tuple[str, str]]:
    return [call for call in below.calls if call[0] in ("get", "get_range", "size")]


def test_an_object_is_fetched_once_and_serves_its_ranges_and_its_size() -> None:
    store, below = counted()
    store.put("k", b"0123456789")
    for _ in range(3):
        assert store.get("k") == b"0123456789"
    assert [store.get_range("k", *place) for place in ((0, 4), (8, 100), (10, 1), (3, 0))] == [b"0123", b"89", b"", b""]
    assert store.size("k") == 10
    assert reads(below) == [("get", "k")]
    assert (store.hits, store.misses) == (6, 1)


def test_a_range_is_fetched_once_and_serves_only_itself() -> None:
    store, below = counted()
    store.put("k", b"0123456789")
    for _ in range(3):
        assert store.get_range("k", 2, 3) == b"234"
        assert store.get_range("k", 10, 5) == b""
    assert len(reads(below)) == 2
    assert store.get("k") == b"0123456789"
    assert store.get_range("k", 3, 1) == b"3"
    assert [name for name, _ in reads(below)] == ["get_range", "get_range", "get"]
    assert (store.hits, store.misses) == (5, 3)


def test_what_may_change_is_read_every_time() -> None:
    store, below = counted(is_immutable=lambda key: key != "head")
    for text in (b"1", b"2"):
        below.put("head", text)
        assert (store.get("head"), store.get_range("head", 0, 1), store.size("head")) == (text, text, 1)
    assert store.create("head", b"") is Created.LOST
    assert (store.hits, store.misses, store.used) == (0, 0, 0)


def test_that_something_is_absent_is_not_remembered() -> None:
    store, below = counted()
    for read in (store.get, store.size, lambda key: store.get_range(key, 0, 1)):
        with pytest.raises(NotFound):
            read("k")
    below.put("k", b"x")
    assert (store.get("k"), store.get_range("k", 0, 1), store.size("k")) == (b"x", b"x", 1)


def test_a_failure_is_not_remembered() -> None:
    inner = MemoryStore()
    inner.put("k", b"x")
    store = CachedStore(FaultyStore(inner, lambda number, name, key: Fault.ERROR if number == 0 else None), always)
    with pytest.raises(StorageFailure):
        store.get("k")
    assert (store.get("k"), store.misses, store.hits) == (b"x", 2, 0)


CREATES = [
    (None, Created.LANDED, True),
    (Fault.REFUSED, Created.LOST, False),
    (Fault.LOST_ANSWER, Created.UNKNOWN, False),
    (Fault.DROPPED, Created.UNKNOWN, False),
    (Fault.LATE, Created.UNKNOWN, False),
    (Fault.DOUBLED, Created.LOST, False),
]


@pytest.mark.parametrize("fault, outcome, is_kept", CREATES)
def test_only_what_landed_is_kept(fault: Fault | None, outcome: Created, is_kept: bool) -> None:
    inner = MemoryStore()
    below = FaultyStore(inner, lambda number, name, key: fault if number == 0 else None)
    store = CachedStore(below, always)
    assert store.create("k", b"ours") is outcome
    assert (store.used > 0) == is_kept
    inner.put("k", b"theirs")
    assert store.get("k") == (b"ours" if is_kept else b"theirs")


def test_what_was_used_last_is_kept_longest() -> None:
    store, below = counted(capacity=10 * 300)
    for i in range(10):
        store.put(f"k{i}", b"x" * 100)
        store.get(f"k{i}")
    store.get("k0")
    store.put("new", b"x" * 100)
    store.get("new")
    before = len(reads(below))
    store.get("k0")
    store.get("k2")
    assert len(reads(below)) == before
    store.get("k1")
    assert len(reads(below)) == before + 1
    assert store.used <= 3000


def test_many_empty_ranges_have_a_limit_too() -> None:
    store, _ = counted(capacity=10_000)
    store.put("k", b"")
    for i in range(1000):
        store.get_range("k", i, 1)
    assert store.used <= 10_000
    assert (store.hits, store.misses) == (0, 1000)


def test_an_object_that_would_take_too_much_is_not_kept() -> None:
    store, below = counted(capacity=80_000)
    for size, calls in ((10_000, 1), (10_001, 2)):
        below.calls.clear()
        assert store.create(f"c{size}", bytes(size)) is Created.LANDED
        store.put(f"k{size}", bytes(size))
        for _ in range(2):
            assert len(store.get(f"k{size}")) == size
            assert len(store.get(f"c{size}")) == size
        assert reads(below).count(("get", f"k{size}")) == calls
        assert reads(below).count(("get", f"c{size}")) == (0 if calls == 1 else 2)


@pytest.mark.parametrize("fault", [None, Fault.ERROR, Fault.LOST_ANSWER])
@pytest.mark.parametrize("call", ["delete", "put"])
def test_a_write_drops_what_is_kept_even_if_it_fails(call: str, fault: Fault | None) -> None:
    inner = MemoryStore()
    inner.put("k", b"0123")
    store = CachedStore(FaultyStore(inner, lambda number, name, key: fault if name == call else None), always)
    assert (store.get("k"), store.get_range("k", 1, 1)) == (b"0123", b"1")
    try:
        store.delete("k") if call == "delete" else store.put("k", b"4567")
    except StorageFailure:
        assert fault is not None
    assert store.used == 0
    if call == "delete" and fault is not Fault.ERROR:
        for read in (store.get, store.size, lambda key: store.get_range(key, 1, 1)):
            with pytest.raises(NotFound):
                read("k")
    else:
        expected = b"0123" if fault is Fault.ERROR else b"4567"
        assert (store.get("k"), store.size("k"), store.get_range("k", 1, 1)) == (expected, 4, expected[1:2])


class SlowStore(MemoryStore):
    """Holds what it read, or that it created, until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.did, self.go_on = threading.Event(), threading.Event()

    def get(self, key: str) -> bytes:
        data = super().get(key)
        self.did.set()
        self.go_on.wait(20)
        return data

    def create(self, key: str, data: bytes) -> Created:
        outcome = super().create(key, data)
        self.did.set()
        self.go_on.wait(20)
        return outcome


@pytest.mark.parametrize("call", ["get", "create"])
def test_what_was_under_way_when_it_was_deleted_is_not_kept(call: str) -> None:
    inner = SlowStore()
    store = CachedStore(inner, always)
    if call == "get":
        inner.put("k", b"old")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(store.get, "k") if call == "get" else pool.submit(store.create, "k", b"old")
        assert inner.did.wait(20)
        store.delete("k")
        inner.go_on.set()
        assert slow.result(20) in (b"old", Created.LANDED)
    assert store.used == 0
    with pytest.raises(NotFound):
        store.get("k")


@pytest.mark.parametrize("seed", range(20))
def test_a_random_walk_reads_the_same_as_without_a_cache(seed: int) -> None:
    dice = random.Random(seed)
    inner = MemoryStore()
    store = CachedStore(inner, always, 4000)
    for _ in range(500):
        key = f"k{dice.randrange(8)}"
        match dice.randrange(7):
            case 0:
                store.put(key, dice.randbytes(dice.randrange(700)))
            case 1:
                store.delete(key)
            case 2:
                store.create(key, dice.randbytes(dice.randrange(700)))
            case 3:
                assert outcome(store, "size", key) == outcome(inner, "size", key)
            case 4:
                assert outcome(store, "get", key) == outcome(inner, "get", key)
            case _:
                place = dice.randrange(700), dice.choice((0, 5, 1000))
                assert outcome(store, "get_range", key, *place) == outcome(inner, "get_range", key, *place)
        assert 0 <= store.used <= 4000
    assert store.hits
    for key in [item.key for item in store.list()]:
        store.delete(key)
    assert store.used == 0


def outcome(store: object, call: str, *args: object) -> object:
    try:
        return getattr(store, call)(*args)
    except NotFound:
        return NotFound


def test_threads_share_it() -> None:
    inner = MemoryStore()
    store = CachedStore(inner, always, 3000)
    for i in range(20):
        inner.put(f"k{i}", b"%d" % i * 50)

    def work(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(1000):
            i = dice.randrange(20)
            if dice.random() < 0.1:
                store.put(f"k{i}", b"%d" % i * 50)
            elif dice.random() < 0.5:
                assert store.get_range(f"k{i}", 10, 20) == (b"%d" % i * 50)[10:30]
            else:
                assert store.get(f"k{i}") == b"%d" % i * 50

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert 0 < store.used <= 3000
    assert store.hits
    for i in range(20):
        store.delete(f"k{i}")
    assert store.used == 0
