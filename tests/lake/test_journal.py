"""The journal: one winner a slot, own entries recognised, hints that are only hints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.errors import Conflict, CorruptData, OutcomeUnknown, StorageFailure
from shoal.ids import new
from shoal.lake.claims import Patience
from shoal.lake.journal import Changes, Journal, State
from shoal.lake.sealed import seal
from shoal.model.fields import uint64
from shoal.model.values import int64, record
from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore

SHORT = Patience(deadline=0.05, refusals=3)


def put(**values: int) -> Callable[[State], Changes]:
    return lambda state: {key: int64(value) for key, value in values.items()}


def data(state: State) -> dict[str, int]:
    return {key: value.data for key, value in state.entries.items()}


def opened(store: ObjectStore) -> Journal:
    return Journal(store, "j", SHORT)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def on_create(fault: Fault, times: int = 1) -> Callable[[int, str, str], Fault | None]:
    left = [times]

    def choose(number: int, name: str, key: str) -> Fault | None:
        if name == "create" and left[0] > 0:
            left[0] -= 1
            return fault
        return None

    return choose


def test_an_empty_journal_has_no_keys(store: MemoryStore) -> None:
    assert data(opened(store).read()) == {}
    assert opened(store).read().position == 0


def test_changes_are_seen_by_others(store: MemoryStore) -> None:
    one, other = opened(store), opened(store)
    one.change(new(), put(a=1, b=2))
    assert data(other.read()) == {"a": 1, "b": 2}
    other.change(new(), lambda state: {"a": None, "c": int64(3)})
    assert data(one.read()) == {"b": 2, "c": 3}


def test_the_loser_of_a_slot_decides_anew_on_the_new_state(store: MemoryStore) -> None:
    one, other = opened(store), opened(store)
    one.read()
    seen: list[int] = []

    def plan(state: State) -> Changes:
        seen.append(state.position)
        if len(seen) == 1:
            other.change(new(), put(a=1))
        return {"b": int64(2)}

    entry = one.change(new(), plan)
    assert (seen, entry.position) == ([0, 1], 2)
    assert data(opened(store).read()) == {"a": 1, "b": 2}


def test_a_plan_that_no_longer_holds_leaves_nothing_behind(store: MemoryStore) -> None:
    one, other = opened(store), opened(store)

    def plan(state: State) -> Changes:
        if "a" in state.entries:
            raise Conflict("a is taken")
        other.change(new(), put(a=1))
        return {"a": int64(2)}

    with pytest.raises(Conflict):
        one.change(new(), plan)
    assert [e.position for e in opened(store).entries()] == [1]


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.REFUSED, Fault.LATE])
def test_one_entry_whatever_the_store_says_of_a_create(store: MemoryStore, fault: Fault) -> None:
    faulty = FaultyStore(store, on_create(fault))
    op = new()
    entry = opened(faulty).change(op, put(a=1))
    faulty.land_late()
    assert [(e.position, e.op) for e in opened(store).entries()] == [(1, op)]
    assert entry.op == op


def test_a_create_that_is_always_refused_is_an_unknown_outcome_with_the_id(store: MemoryStore) -> None:
    op = new()
    with pytest.raises(OutcomeUnknown, match="it is not known whether operation"):
        opened(FaultyStore(store, on_create(Fault.REFUSED, 99))).change(op, put(a=1))
    # Repeating it is safe, and finds what landed late.
    assert opened(store).change(op, put(a=1), after=0).op == op
    assert opened(store).change(op, put(a=1), after=0).position == 1


def test_an_entry_that_lands_late_is_found_by_whoever_repeats_the_operation(store: MemoryStore) -> None:
    op = new()
    faulty = FaultyStore(store, on_create(Fault.LATE, 99))
    with pytest.raises(OutcomeUnknown):
        opened(faulty).change(op, put(a=1))
    faulty.land_late()
    opened(store).change(new(), put(b=1))
    assert opened(store).change(op, put(a=1), after=0).position == 1
    assert [e.position for e in opened(store).entries()] == [1, 2]


def test_a_store_that_failed_for_certain_is_a_failure_and_nothing_is_there(store: MemoryStore) -> None:
    with pytest.raises(StorageFailure):
        opened(FaultyStore(store, on_create(Fault.ERROR))).change(new(), put(a=1))
    assert list(opened(store).entries()) == []


def test_head_and_snapshots_are_written_now_and_then_and_only_hints(store: MemoryStore) -> None:
    writer = opened(store)
    for i in range(100):
        writer.change(new(), put(**{f"k{i % 7}": i}))
    expected = data(writer.read())
    keys = {listed.key for listed in store.list("j/")}
    assert "j/HEAD" in keys
    assert f"j/{96:020d}.snap.zng" in keys
    for damage in (b"", b"garbage", store.get(f"j/{1:020d}.zng")):
        store.put("j/HEAD", damage)
        store.put(f"j/{96:020d}.snap.zng", damage)
        assert data(opened(store).read()) == expected
        assert opened(store).read().position == 100
    store.delete("j/HEAD")
    for position in range(16, 100, 16):
        store.delete(f"j/{position:020d}.snap.zng")
    assert data(opened(store).read()) == expected


def test_a_head_beyond_the_end_is_ignored(store: MemoryStore) -> None:
    writer = opened(store)
    for i in range(20):
        writer.change(new(), put(a=i))
    for position in (21, 22, 1000):
        store.put("j/HEAD", seal([record([("position", uint64(position))])], "j/HEAD"))
        try:
            state = opened(store).read()
        except CorruptData as e:
            pytest.fail(f"HEAD was believed: {e}")
        assert (state.position, data(state)) == (20, {"a": 19})


def test_every_state_of_the_past_is_that_of_its_entries(store: MemoryStore) -> None:
    writer = opened(store)
    for i in range(40):
        writer.change(new(), put(**{f"k{i}": i}))
    for position in range(41):
        assert data(opened(store).at_position(position)) == {f"k{i}": i for i in range(position)}


def test_finding_the_end_does_not_read_the_whole_journal(store: MemoryStore) -> None:
    writer = opened(store)
    for i in range(300):
        writer.change(new(), put(a=i))
    counting = FaultyStore(store, lambda number, name, key: None)
    assert opened(counting).read().position == 300
    assert len(counting.calls) < 60


def test_the_state_at_a_moment_is_found_even_if_a_clock_went_back(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100, 200, 50, 300])
    monkeypatch.setattr("shoal.lake.journal.time.time_ns", lambda: next(clock))
    writer = opened(store)
    for i in range(4):
        writer.change(new(), put(a=i))
    assert [e.at for e in opened(store).entries()] == [100, 200, 200, 300]
    reader = opened(store)
    moments = {at: reader.moment(at).position for at in (99, 100, 199, 200, 299, 300, 10**18)}
    found = {at: data(reader.at_position(position)).get("a") for at, position in moments.items()}
    assert found == {99: None, 100: 0, 199: 0, 200: 2, 299: 2, 300: 3, 10**18: 3}


def test_nobody_waits_when_nothing_is_wrong(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("shoal.lake.journal.time.sleep", waits.append)
    monkeypatch.setattr("shoal.lake.claims.time.sleep", waits.append)
    writer = opened(store)
    for i in range(50):
        writer.change(new(), put(a=i))
    assert waits == []
