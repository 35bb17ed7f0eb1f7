"""A key of a caller stands for one operation and one request, whatever goes wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.errors import Conflict, CorruptData, OutcomeUnknown, StorageFailure
from shoal.ids import new
from shoal.lake.claims import Patience
from shoal.lake.lake import Lake
from shoal.lake.requests import REQUESTS, Claimed, claim_request
from shoal.storage.faults import Crash, Fault, FaultyStore
from shoal.storage.local import LocalStore
from shoal.storage.memory import MemoryStore
from shoal.testing.lake_scenes import in_miniature


def test_a_key_stands_for_the_operation_that_was_chosen_when_it_was_first_seen(store: MemoryStore) -> None:
    first = claim_request(store, "ann", "k1", b"digest")
    assert not first.is_repeated
    assert claim_request(store, "ann", "k1", b"digest") == Claimed(first.op, True)
    assert claim_request(store, "ann", "k1", b"digest", op=new()).op == first.op


def test_another_request_under_the_same_key_is_refused(store: MemoryStore) -> None:
    claim_request(store, "ann", "k1", b"digest")
    with pytest.raises(Conflict, match="another request"):
        claim_request(store, "ann", "k1", b"other")


def test_callers_do_not_meet_in_their_keys(store: MemoryStore) -> None:
    pairs = [("ann", "b k"), ("ann b", "k"), ("ann", "k"), ("", "ann k"), ("1 ann", "k")]
    ops = {claim_request(store, caller, key, b"digest").op for caller, key in pairs}
    assert len(ops) == len(pairs)


def test_an_operation_can_be_chosen_by_whoever_comes_first(store: MemoryStore) -> None:
    op = new()
    assert claim_request(store, "ann", "k1", b"digest", op) == Claimed(op, False)


def test_of_many_at_once_one_is_first_and_all_have_the_same_operation(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    with ThreadPoolExecutor(16) as pool:
        claims = list(pool.map(lambda _: claim_request(store, "ann", "k1", b"digest"), range(64)))
    assert len({each.op for each in claims}) == 1
    assert sum(not each.is_repeated for each in claims) == 1


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("call", range(3))
@pytest.mark.parametrize("is_hasty", [False, True])
def test_a_key_stands_for_one_operation_whatever_goes_wrong_when_it_is_first_seen(
    fault: Fault, call: int, is_hasty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_miniature(monkeypatch, Patience(deadline=-1.0, refusals=0) if is_hasty else None)
    store = FaultyStore(MemoryStore(), lambda number, name, key: fault if number == call else None)
    told = []
    for _ in range(3):
        try:
            told.append(claim_request(store, "ann", "k1", b"digest"))
        except (Crash, StorageFailure, OutcomeUnknown):
            store.land_late()
    store.land_late()
    told.append(claim_request(store, "ann", "k1", b"digest"))
    assert len({each.op for each in told}) == 1
    assert sum(not each.is_repeated for each in told) <= 1


def test_a_record_that_is_damaged_is_not_believed(store: MemoryStore) -> None:
    claim_request(store, "ann", "k1", b"digest")
    (listed,) = store.list(f"{REQUESTS}/")
    data = bytearray(store.get(listed.key))
    data[10] ^= 1
    store.put(listed.key, bytes(data))
    with pytest.raises(CorruptData):
        claim_request(store, "ann", "k1", b"digest")


def test_a_vacuum_of_the_lake_takes_requests_that_are_older_than_the_grace_period(made: Lake) -> None:
    old = claim_request(made.store, "ann", "k1", b"digest")
    assert made.leftovers(3600.0) == []
    gone = made.leftovers(-1.0)
    assert [listed.key.partition("/")[0] for listed in gone] == [REQUESTS]
    made.remove(gone)
    assert claim_request(made.store, "ann", "k1", b"digest").op != old.op
