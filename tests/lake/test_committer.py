"""Loads that come together: each is in the history once, under its own id, whatever goes wrong and whoever is there."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import pytest

from shoal.errors import Conflict, InvalidInput, NotFound, OutcomeUnknown, ShoalError, StorageFailure
from shoal.ids import Id, new, to_text
from shoal.lake import changes, committer, lake, vacuum
from shoal.lake.actions import Patch, patch_of
from shoal.lake.claims import Patience
from shoal.lake.commits import Note
from shoal.lake.committer import Change, Committer, Outcome
from shoal.lake.fitting import fit, planned_at
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.local.lake import create_local, open_local, stored
from shoal.storage.faults import Crash, Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import Created, ObjectStore
from shoal.testing.lake_checks import check_chain, check_journal, copied, inspect
from shoal.testing.lake_scenes import Facts, checkpoint_due, in_miniature, load, number, pond

HASTY = Patience(deadline=-1.0, refusals=0)
"""Gives up at the first doubt, so that outcomes are unknown."""
MEMBERS = 3
WRITES = ("create", "put")
T = TypeVar("T")


def open_pool(store: ObjectStore, facts: Facts) -> Pool:
    return lake.open_lake(store).pool(to_text(facts.pool))


def op_of(facts: Facts, i: int) -> Id:
    """The id of a member, the same in every run."""
    return Id(facts.op[:4] + sha256(facts.op + bytes([i])).digest()[:16])


def written(pool: Pool, k: int) -> tuple[DataObject, ...]:
    writer = pool.writer()
    writer.write(number(k))
    return tuple(writer.close())


def members(pool: Pool, facts: Facts, which: tuple[int, ...] = tuple(range(MEMBERS))) -> list[Change]:
    return [changes.load("main", written(pool, 70 + i), Note("test", f"member {i}"), op_of(facts, i)) for i in which]


def added_by(change: Change) -> Id:
    assert isinstance(change.build, Patch)
    return change.build.adds[0].id


def commit_group(pool: Pool, branch: str, group: Sequence[Change]) -> list[Outcome]:
    return pool.committer.commit_all([replace(change, branch=branch) for change in group])


def history(store: ObjectStore, facts: Facts, branch: str = "main") -> list[tuple[str, Id]]:
    """Messages and ids of the commits of a branch, newest first."""
    pool = open_pool(store, facts)
    return [(commit.note.message, commit.id) for commit in pool.log(pool.refs().branch(branch).commit)]


# ---- what a group is


def test_a_group_is_a_chain_of_commits_and_one_entry_that_names_them(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    tip, position = pool.resolve("main"), pool.journal.read().position
    told = commit_group(pool, "main", members(pool, facts))
    entry = pool.journal.entry(position + 1)
    assert pool.journal.read().position == position + 1
    assert list(entry.group.items()) == [(op_of(facts, i), told[i]) for i in range(MEMBERS)]
    assert told == [op_of(facts, i) for i in range(MEMBERS)], "a first attempt has the id of its operation"
    assert [ident for _, ident in history(store, facts)[: MEMBERS + 1]] == [*told[::-1], tip]
    for i in range(MEMBERS):
        assert open_pool(store, facts).committer.done(op_of(facts, i), "main") == told[i]
    inspect(store, facts)


def test_a_group_of_one_is_an_entry_like_any_other(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    (told,) = commit_group(pool, "main", members(pool, facts, (0,)))
    entry = pool.journal.entry(pool.journal.read().position)
    assert (entry.op, entry.group, told) == (op_of(facts, 0), {}, op_of(facts, 0))


def test_a_group_leaves_the_newest_checkpoint_that_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    in_miniature(monkeypatch)
    store = MemoryStore()
    facts = checkpoint_due(store)
    pool = open_pool(store, facts)
    told = commit_group(pool, "main", members(pool, facts, tuple(range(7))))
    left = [ident for ident in told if isinstance(ident, bytes) and pool.history.checkpoints.exists(ident)]
    assert left == [told[4]]
    after = load(pool, (99,), "after")
    assert pool.commits.read(after).checkpoint == told[4]
    inspect(store, facts)


def test_whoever_cannot_go_on_leaves_and_harms_nobody(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    loads = members(pool, facts)
    vacuum.purge(pool, [added_by(loads[1])])
    told = commit_group(pool, "main", loads)
    assert isinstance(told[1], Conflict)
    assert [message for message, _ in history(store, facts)[:3]] == ["member 2", "member 0", "five"]
    assert open_pool(store, facts).committer.done(op_of(facts, 1), "main") is None
    inspect(store, facts)


def test_data_that_a_vacuum_has_taken_keeps_only_its_own_load_from_its_commit(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    old = changes.load("main", written(pool, 70), Note("test", "old"), new())
    vacuum.collect(pool, 0.0)
    told = commit_group(pool, "main", [old, *members(pool, facts)])
    assert isinstance(told[0], Conflict)
    assert [isinstance(each, bytes) for each in told] == [False, True, True, True]
    inspect(store, facts)


def test_a_branch_that_is_not_there_is_an_error_for_each_member(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    told = commit_group(pool, "nowhere", members(pool, facts))
    assert all(isinstance(each, NotFound) for each in told)
    assert len({id(each) for each in told}) == MEMBERS, "each has an error of its own"


def test_an_operation_that_is_in_a_group_twice_is_done_once(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    told = commit_group(pool, "main", [*members(pool, facts), *members(pool, facts, (1, 0))])
    assert told[3:] == [told[1], told[0]]
    assert [message for message, _ in history(store, facts)[:4]] == ["member 2", "member 1", "member 0", "five"]


def test_members_who_were_begun_before_leave_the_group_and_are_done_once(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    before = pool.committer.commit(changes.load("main", written(pool, 71), Note("test", "member 1"), op_of(facts, 1)))
    told = commit_group(open_pool(store, facts), "main", members(pool, facts))
    assert told[1] == before
    assert [message for message, _ in history(store, facts)[:4]] == ["member 2", "member 0", "member 1", "five"]


def test_a_commit_after_one_that_somebody_else_made_under_the_same_id_is_written_anew(store: MemoryStore) -> None:
    """Somebody lands the first member, with other hints, when the group has written its chain after its own."""
    facts = pond(store)
    pool = open_pool(store, facts)
    load(pool, (60,), "in between", "main")
    rival = members(pool, facts, (0,))
    group = members(pool, facts)

    def choose(number: int, name: str, key: str) -> Fault | None:
        if rival and name == "create" and key.endswith(f"{to_text(op_of(facts, 0))}.zng"):
            commit_group(open_pool(store, facts), "main", [rival.pop()])
        return None

    told = commit_group(open_pool(FaultyStore(store, choose), facts), "main", group)
    assert not rival
    assert told[0] == op_of(facts, 0)
    opened = open_pool(store, facts)
    check_chain(opened, opened.resolve("main"))
    assert [m for m, _ in history(store, facts)[:4]] == ["member 2", "member 1", "member 0", "in between"]
    inspect(store, facts)


def test_a_group_that_loses_a_race_goes_on_with_half_of_its_members(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "MOST", 4)
    facts = pond(store)
    rivals = [1, 2, 3]

    def choose(number: int, name: str, key: str) -> Fault | None:
        if rivals and name == "create" and "/branches/" in key:
            load(open_pool(store, facts), (80,), f"rival {rivals.pop()}")
        return None

    pool = open_pool(FaultyStore(store, choose), facts)
    told = commit_group(pool, "main", members(pool, facts, (0, 1, 2, 3)))
    sizes = [len(e.group) for e in pool.journal.entries(pool.journal.read().position - 2)]
    assert sizes == [0, 3], "after one that went alone all others go together again"
    found = dict(history(store, facts))
    assert [found[f"member {i}"] for i in range(4)] == told
    inspect(store, facts)


# ---- changes of any kind


def deletion(pool: Pool, message: str, op: Id | None = None) -> Change:
    """A change that reads the state at its tip: deletes what is there with key 10 and 11."""
    base = pool.refs().branch("main").commit
    objects = pool.commits.read(base).adds if base is not None else ()
    build = partial(fit, pool, patch_of(deletes=objects), planned_at(base), what="delete")
    return Change("main", build, Note("test", message), op)


def state(pool: Pool) -> list[tuple[object, int]]:
    return [(o.min.data, o.count) for o in pool.snapshot(pool.resolve("main")).objects()]


def test_a_group_leaves_the_state_that_its_changes_leave_one_by_one(store: MemoryStore) -> None:
    facts = pond(store)
    other = copied(store)
    together, alone = open_pool(store, facts), open_pool(other, facts)

    def group(pool: Pool) -> list[Change]:
        first, second, third = members(pool, facts)
        return [first, deletion(pool, "deletion"), second, third]

    position = together.journal.read().position
    outcomes_together = together.committer.commit_all(group(together))
    outcomes_alone = [alone.committer.commit(change) for change in group(alone)]
    assert together.journal.read().position == position + 1
    assert alone.journal.read().position == position + 4
    assert state(together) == state(alone)
    assert [m for m, _ in history(store, facts)] == [m for m, _ in history(other, facts)]
    assert all(isinstance(each, bytes) for each in (*outcomes_together, *outcomes_alone))
    assert outcomes_together[0] == outcomes_alone[0] == op_of(facts, 0)
    inspect(store, facts)


def test_a_conflict_inside_a_group_concerns_the_change_that_came_second(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    first, last = members(pool, facts, (0, 1))
    group = [first, deletion(pool, "one"), deletion(pool, "two"), last]
    outcomes_of_group = pool.committer.commit_all(group)
    assert [type(each) for each in outcomes_of_group] == [bytes, bytes, Conflict, bytes]
    assert [m for m, _ in history(store, facts)[:4]] == ["member 1", "one", "member 0", "five"]
    inspect(store, facts)


def test_an_operation_that_was_done_before_is_not_done_again_among_new_ones(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    (done,) = pool.committer.commit_all(members(pool, facts, (1,)))
    position = pool.journal.read().position
    again = open_pool(store, facts)
    assert again.committer.commit_all(members(again, facts))[1] == done
    assert list(again.journal.entry(position + 1).group) == [op_of(facts, 0), op_of(facts, 2)]
    assert again.journal.read().position == position + 1
    inspect(store, facts)


def test_an_entry_of_unknown_fate_leaves_each_change_in_doubt_under_its_own_id(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_miniature(monkeypatch, HASTY)
    facts = pond(store)
    late = FaultyStore(
        store, lambda number, name, key: Fault.LATE if name == "create" and "/branches/" in key else None
    )
    pool = open_pool(late, facts)
    outcomes_of_group = pool.committer.commit_all([*members(pool, facts), deletion(pool, "deletion", new())])
    assert [type(each) for each in outcomes_of_group] == [OutcomeUnknown] * 4
    assert len({str(each) for each in outcomes_of_group}) == 4
    late.land_late()
    again = open_pool(store, facts)
    assert again.committer.commit_all(members(again, facts)) == [op_of(facts, i) for i in range(MEMBERS)]
    inspect(store, facts)


def test_a_group_is_for_one_branch(store: MemoryStore) -> None:
    facts = pond(store)
    pool = open_pool(store, facts)
    one, two = members(pool, facts, (0, 1))
    with pytest.raises(InvalidInput, match="one branch"):
        pool.committer.commit_all([one, replace(two, branch="side")])


# ---- one fault at every call


def outcomes(store: ObjectStore, facts: Facts, which: tuple[int, ...]) -> dict[int, object]:
    """What each member of a group is told by a new client."""
    try:
        pool = open_pool(store, facts)
        return dict(zip(which, commit_group(pool, "main", members(pool, facts, which)), strict=True))
    except (Crash, ShoalError) as e:
        return dict.fromkeys(which, e)


def check_told(store: MemoryStore, facts: Facts, told: Mapping[int, object], may_be_done: set[int]) -> None:
    """What members were told is what is there (P1, P6). Who failed was not done, unless an earlier attempt was."""
    check_journal(store, f"{to_text(facts.pool)}/branches")
    found = history(store, facts)
    count = Counter(message for message, _ in found)
    for i, outcome in told.items():
        name = f"member {i}"
        assert count[name] <= 1, f"{name} is there {count[name]} times"
        match outcome:
            case bytes():
                assert (name, outcome) in found, f"{name} was acknowledged as {to_text(outcome)}, and is not there"
            case OutcomeUnknown():
                assert outcome.commit == to_text(op_of(facts, i)), f"{name} was told another id: {outcome}"
                may_be_done.add(i)
            case Crash():
                may_be_done.add(i)
            case _:
                assert isinstance(outcome, StorageFailure), f"{name}: {outcome!r}"
                assert count[name] == 0 or i in may_be_done, f"{name} was said to have failed, and is there"


def sweep_faults(calls: list[tuple[str, str]], only: tuple[str, ...]) -> Iterator[tuple[int, Fault, bool]]:
    for call, (name, _) in enumerate(calls):
        if name in only:
            reads = (Fault.CRASH_BEFORE, Fault.ERROR)
            for fault in Fault if name == "create" else reads if name not in WRITES else tuple(Fault)[:6]:
                yield call, fault, True
                if fault is Fault.LATE:
                    yield call, fault, False


REPEATS = (((0, 1, 2),), ((2, 1, 0),), ((0,), (1,), (2,)), ((1, 2), (0,)))
"""In which groups the members come again."""


def judge(made: MemoryStore, facts: Facts, faults: Mapping[int, Fault], lands_first: bool, rival: bool, n: int) -> None:
    inner = copied(made)
    rivals = [1] if rival else []

    def choose(number: int, name: str, key: str) -> Fault | None:
        if rivals and name == "create" and "/branches/" in key:
            rivals.pop()
            load(open_pool(inner, facts), (81,), "rival")
        return faults.get(number)

    store = FaultyStore(inner, choose)
    may_be_done: set[int] = set()
    told = outcomes(store, facts, tuple(range(MEMBERS)))
    if lands_first:
        store.land_late()
    check_told(inner, facts, told, may_be_done)
    inspect(inner, facts)
    for _ in range(3):
        for which in REPEATS[n % len(REPEATS)]:
            told.update(outcomes(store, facts, which))
            check_told(inner, facts, told, may_be_done)
    assert all(isinstance(outcome, bytes) for outcome in told.values()), told
    store.land_late()
    for which in REPEATS[(n + 1) % len(REPEATS)]:
        again = outcomes(inner, facts, which)
        assert again == {i: told[i] for i in which}
    pool = open_pool(inner, facts)
    assert [pool.committer.done(op_of(facts, i), "main") for i in range(MEMBERS)] == [told[i] for i in range(MEMBERS)]
    check_told(inner, facts, told, may_be_done)
    inspect(inner, facts)


@pytest.mark.parametrize("patience", [None, HASTY], ids=["patient", "hasty"])
@pytest.mark.parametrize("rival", [False, True], ids=["alone", "another load being first"])
def test_one_fault_at_any_call_of_a_group_leaves_each_member_done_once_or_not_at_all(
    rival: bool, patience: Patience | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1-F7: and whoever repeats, in whatever company, is told the commit that is in the history."""
    in_miniature(monkeypatch, patience)
    made = MemoryStore()
    facts = pond(made)
    calls = FaultyStore(copied(made), lambda number, name, key: None)
    outcomes(calls, facts, tuple(range(MEMBERS)))
    only = ("create",) if patience is HASTY else ("create", "put", "get", "get_range", "size", "list", "delete")
    broken: list[str] = []
    runs = 0
    for runs, (call, fault, lands_first) in enumerate(sweep_faults(calls.calls, only)):
        try:
            judge(made, facts, {call: fault}, lands_first, rival, runs)
        except (AssertionError, ShoalError) as e:
            broken.append(f"{fault.value} at call {call} {calls.calls[call]}, lands first {lands_first}: {e}"[:600])
    assert not broken, f"{len(broken)} of {runs} runs broke a promise:\n" + "\n".join(broken[:10])
    assert runs > 2 * len([name for name, _ in calls.calls if name in only])


@pytest.mark.parametrize("patience", [None, HASTY], ids=["patient", "hasty"])
def test_an_entry_of_a_group_that_lands_at_any_later_call_is_recognised_by_every_member(
    patience: Patience | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: the members come again one by one, and the late entry of their group lands in between."""
    in_miniature(monkeypatch, patience)
    made = MemoryStore()
    facts = pond(made)
    landing = 1
    while lands_at(made, facts, landing):
        landing += 1
    assert landing > 10


def lands_at(made: MemoryStore, facts: Facts, landing: int) -> bool:
    """A run in which the entry lands so many calls after it was put; False if there are no more calls."""
    inner = copied(made)
    late: list[int] = []

    def choose(number: int, name: str, key: str) -> Fault | None:
        if late and number == late[0] + landing:
            store.land_late()
        if not late and name == "create" and "/branches/" in key:
            late.append(number)
            return Fault.LATE
        return None

    store = FaultyStore(inner, choose)
    may_be_done: set[int] = set()
    told = outcomes(store, facts, tuple(range(MEMBERS)))
    check_told(inner, facts, told, may_be_done)
    for which in REPEATS[landing % len(REPEATS)]:
        told.update(outcomes(store, facts, which))
    check_told(inner, facts, told, may_be_done)
    assert all(isinstance(outcome, bytes) for outcome in told.values()), told
    store.land_late()
    check_told(inner, facts, told, may_be_done)
    inspect(inner, facts)
    return len(store.calls) >= late[0] + landing


# ---- threads


def run_threads(count: int, act: Callable[[int], T]) -> list[T | BaseException]:
    """What each of many threads that begin at the same moment is told."""
    barrier = threading.Barrier(count)

    def work(i: int) -> T | BaseException:
        barrier.wait()
        try:
            return act(i)
        except (ShoalError, Crash) as e:
            return e

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(work, range(count)))


def test_64_threads_that_load_into_one_branch_each_have_one_commit(tmp_path: Path) -> None:
    made = create_local(str(tmp_path / "lake"))
    pool = made.create("logs", key="k")
    ops = [to_text(new()) for _ in range(192)]

    def act(i: int) -> list[str]:
        return [pool.load([{"k": j}], op=ops[j], message=f"load {j}") for j in range(i, 192, 64)]

    by_op: dict[int, str] = {}
    for i, told in enumerate(run_threads(64, act)):
        assert isinstance(told, list), told
        by_op |= dict(zip(range(i, 192, 64), told, strict=True))
    log = {commit.message: commit.id for commit in pool.log()}
    assert len([*pool.log()]) == 192
    assert log == {f"load {j}": by_op[j] for j in range(192)}
    assert made.query("from logs | count()").to_list() == [192]
    again = open_local(made.uri).pool("logs")
    assert [again.load([{"k": 0}], op=op) for op in ops[:5]] == [by_op[j] for j in range(5)]
    entries = list(stored(pool).journal.entries())
    assert max(len(entry.group) for entry in entries) > 1, "some came together"
    check_journal(stored(pool).store, f"{pool.id}/branches")


def _load_elsewhere(uri: str, count: int) -> None:
    pool = open_local(uri).pool("logs")
    for i in range(count):
        pool.load([{"k": 1000 + i}], message=f"elsewhere {i}")


def test_groups_and_another_process_that_load_into_one_branch_lose_nothing(tmp_path: Path) -> None:
    made = create_local(str(tmp_path / "lake"))
    pool = made.create("logs", key="k")
    other = multiprocessing.get_context("spawn").Process(target=_load_elsewhere, args=(made.uri, 40))
    other.start()
    done = 0
    while other.is_alive() or done < 64:
        told = run_threads(32, lambda i: pool.load([{"k": i}], message="here"))
        assert all(isinstance(each, str) for each in told), told
        done += 32
    other.join()
    assert other.exitcode == 0
    messages = Counter(commit.message.partition(" ")[0] for commit in pool.log())
    assert messages == {"here": done, "elsewhere": 40}
    assert made.query("from logs | count()").to_list() == [done + 40]
    check_journal(stored(pool).store, f"{pool.id}/branches")


class Slow(MemoryStore):
    """Lets others come while it claims a slot; and fails if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.in_slot = threading.Event()
        self.go_on = threading.Event()
        self.raises: BaseException | None = None

    def create(self, key: str, data: bytes) -> Created:
        if "/branches/" in key and not self.in_slot.is_set():
            self.in_slot.set()
            assert self.go_on.wait(30)
        elif "/branches/" in key and self.raises is not None:
            error, self.raises = self.raises, None
            raise error
        return super().create(key, data)


def slow_pool() -> tuple[Slow, Pool]:
    store = Slow()
    store.in_slot.set()
    facts = pond(store)
    store.in_slot.clear()
    return store, open_pool(store, facts)


def waiting(groups: Committer, branch: str = "main") -> int:
    return len(groups._waiting.get(branch, ()))


def gather(store: Slow, pool: Pool, count: int) -> tuple[Committer, list[object]]:
    """One leads and claims its slot; others come meanwhile, and go on when all are there."""
    groups = pool.committer
    told: list[object] = [None] * count

    def act(i: int) -> None:
        try:
            told[i] = groups.join(changes.load("main", written(pool, 100 + i), Note("test", f"thread {i}"), new()))
        except (ShoalError, Crash) as e:
            told[i] = e

    threads = [threading.Thread(target=act, args=(i,)) for i in range(count)]
    threads[0].start()
    assert store.in_slot.wait(30)
    for thread in threads[1:]:
        thread.start()
    while waiting(groups) < count - 1:
        assert any(thread.is_alive() for thread in threads)
    store.go_on.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "somebody waits for ever"
    return groups, told


def test_those_who_come_while_one_commits_go_together_after_it() -> None:
    store, pool = slow_pool()
    before = pool.journal.read().position
    groups, told = gather(store, pool, 10)
    sizes = [len(entry.group) for entry in pool.journal.entries(before)]
    assert sizes == [0, 9]
    assert {commit.id for commit in list(pool.log(pool.resolve("main")))[:10]} == set(told)
    assert not groups._waiting


def test_who_is_interrupted_while_it_leads_leaves_the_others_in_doubt_and_not_waiting() -> None:
    store, pool = slow_pool()
    store.raises = Crash("killed")
    groups, told = gather(store, pool, 10)
    kinds = Counter(type(each) for each in told)
    assert kinds == {bytes: 1, Crash: 1, OutcomeUnknown: 8}
    assert len({each.commit for each in told if isinstance(each, OutcomeUnknown)}) == 8
    assert not groups._waiting
    assert groups.join(changes.load("main", written(pool, 200), Note("test", "after"))) == pool.resolve("main")


def test_a_store_that_fails_is_an_error_for_all_in_the_group_and_for_nobody_else() -> None:
    store, pool = slow_pool()
    store.raises = StorageFailure("the disk is full")
    groups, told = gather(store, pool, 10)
    assert Counter(type(each) for each in told) == {bytes: 1, StorageFailure: 9}
    assert groups.join(changes.load("main", written(pool, 200), Note("test", "after"))) == pool.resolve("main")


def test_nothing_cannot_be_loaded(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput):
        changes.load("main", (), Note())
