from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.errors import NotFound, StorageFailure
from shoal.storage.faults import Crash, Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import Created
from shoal.testing.store_contract import StoreContract


class TestWithoutFaults(StoreContract):
    @pytest.fixture
    def store(self) -> FaultyStore:
        return FaultyStore(MemoryStore(), lambda number, name, key: None)


def on(call: int, fault: Fault) -> Callable[[int, str, str], Fault | None]:
    return lambda number, name, key: fault if number == call else None


CREATES = [
    (Fault.ERROR, StorageFailure, False),
    (Fault.CRASH_BEFORE, Crash, False),
    (Fault.CRASH_AFTER, Crash, True),
    (Fault.LOST_ANSWER, Created.UNKNOWN, True),
    (Fault.REFUSED, Created.LOST, False),
    (Fault.LATE, Created.UNKNOWN, False),
    (Fault.DROPPED, Created.UNKNOWN, False),
    (Fault.DOUBLED, Created.LOST, True),
]


@pytest.mark.parametrize("fault, outcome, is_there", CREATES)
def test_each_fault_of_a_create(fault: Fault, outcome: object, is_there: bool) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, on(0, fault))
    if isinstance(outcome, Created):
        assert store.create("k", b"x") is outcome
    else:
        with pytest.raises(outcome):  # type: ignore[call-overload]
            store.create("k", b"x")
    assert [item.key for item in inner.list()] == (["k"] if is_there else [])
    store.land_late()
    assert bool(list(inner.list())) == (is_there or fault is Fault.LATE)


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.LOST_ANSWER, Fault.LATE])
def test_a_put_that_fails_may_have_happened(fault: Fault) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, on(0, fault))
    with pytest.raises(StorageFailure, match="on command"):
        store.put("k", b"x")
    if fault is Fault.ERROR:
        with pytest.raises(NotFound):
            store.get("k")
    store.land_late()
    assert len(list(inner.list())) == (fault is not Fault.ERROR)
    assert [name for name, _ in store.calls][:1] == ["put"]


def test_a_dropped_request_never_happens_and_a_doubled_one_does_no_harm() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, lambda number, name, key: Fault.DOUBLED if number else Fault.DROPPED)
    with pytest.raises(StorageFailure, match="on command"):
        store.put("k", b"x")
    store.land_late()
    assert list(inner.list()) == []
    store.put("k", b"x")
    assert (store.get("k"), store.size("k"), [item.key for item in store.list()]) == (b"x", 1, ["k"])
    store.delete("k")
    assert list(inner.list()) == []


def test_a_late_read_of_what_is_gone_harms_nobody() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, on(0, Fault.LATE))
    with pytest.raises(StorageFailure):
        store.get("k")
    store.land_late()


def test_every_fault_of_a_create_is_in_the_table() -> None:
    assert {fault for fault, _, _ in CREATES} == set(Fault)


def test_a_late_create_loses_to_one_that_was_faster() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, on(0, Fault.LATE))
    assert store.create("k", b"late") is Created.UNKNOWN
    assert store.create("k", b"fast") is Created.LANDED
    store.land_late()
    assert inner.get("k") == b"fast"
