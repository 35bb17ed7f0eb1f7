"""Wrong clocks: what time travel finds, what a commit is dated, and what it costs to know better."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.ids import new
from shoal.lake import changes, vacuum
from shoal.lake.branches import MAIN, Refs
from shoal.lake.claims import Patience
from shoal.lake.clocks import FAR, Clock
from shoal.lake.commits import Note
from shoal.lake.journal import Journal
from shoal.lake.timelines import MOST
from shoal.model.values import int64
from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.store import ObjectStore
from shoal.testing.clocks import DAY, HOUR, MINUTE, START, ClockedStore, Machine, World, cloud, directory, share
from shoal.testing.lake_checks import effective_times

ME = Note("tester")


Kind = Callable[[Machine], ObjectStore]
every_store = pytest.mark.parametrize("kind", [directory, share, cloud])


# ---- time travel


@every_store
@pytest.mark.parametrize("ahead", [2 * HOUR, DAY, 30 * DAY])
def test_a_commit_with_a_clock_ahead_does_not_hide_later_ones(machine: Machine, kind: Kind, ahead: int) -> None:
    world = World(machine, kind(machine))
    world.commit()
    wrong = world.commit(ahead)
    for _ in range(3):
        assert world.commit() == world.at(machine.truth)
    assert world.misdated() == ([1] if kind is directory else [])
    assert world.at(world.commits[2][0] - 1) == (world.commits[0][1] if kind is directory else wrong)
    machine.passed += 2 * ahead
    world.commit()
    assert world.misdated() == ([1] if kind is directory else [])


@every_store
@pytest.mark.parametrize("behind", [HOUR + MINUTE, DAY, 30 * DAY])
def test_a_commit_with_a_clock_behind_does_not_change_the_past(machine: Machine, kind: Kind, behind: int) -> None:
    world = World(machine, kind(machine))
    for _ in range(4):
        world.commit(after=behind // 3)
    world.commit(-behind)
    world.commit()
    assert world.misdated() == ([4] if kind is directory else [])
    assert world.at(machine.truth) == world.commits[-1][1]


def test_a_clock_that_is_set_right_after_many_commits_does_not_hide_more_of_them(machine: Machine) -> None:
    world = World(machine, directory(machine))
    world.commit()
    for _ in range(5):
        world.commit(30 * DAY)
    for _ in range(5):
        world.commit(after=DAY)
    assert world.misdated() == [1, 2, 3, 4, 5]
    assert world.at(world.commits[6][0] - 1) == world.commits[0][1]
    machine.passed += 30 * DAY
    world.commit()
    assert world.misdated() == [1, 2, 3, 4, 5]


def test_a_clock_that_goes_back_for_good_still_dates_every_commit(machine: Machine) -> None:
    world = World(machine, directory(machine))
    world.commit(30 * DAY)
    for _ in range(20):
        world.commit(after=DAY)
    machine.passed += 30 * DAY
    for _ in range(3):
        world.commit()
    assert world.misdated() == [0]


@every_store
def test_writers_that_take_turns_with_a_wrong_one_are_dated_right(machine: Machine, kind: Kind) -> None:
    world = World(machine, kind(machine))
    for number in range(20):
        world.commit(30 * DAY if number % 2 else 0)
    expected = [number for number in range(20) if number % 2 and kind is directory]
    assert world.misdated() == expected


def test_clocks_that_differ_by_less_than_an_hour_are_not_corrected(machine: Machine) -> None:
    world = World(machine, cloud(machine))
    for number in range(10):
        world.commit((HOUR - MINUTE) * (number % 2), after=1)
    times = [entry.at for entry in world.pool().journal.entries()]
    assert times == sorted(times)
    assert world.corrections() == 0


def test_the_number_of_corrections_is_limited(machine: Machine) -> None:
    world = World(machine, directory(machine))
    for number in range(2 * MOST + 20):
        world.commit(30 * DAY + number * MINUTE if number % 2 else 0)
    assert world.corrections() == MOST
    times = effective_times(list(world.pool().journal.entries()))
    assert times == sorted(times)
    assert len(world.misdated()) < 2 * MOST


def test_a_journal_that_an_older_version_dated_wrong_is_corrected_by_the_next_entry(machine: Machine) -> None:
    store = directory(machine)
    older, newer = Journal(store, "j"), Journal(store, "j", clock=Clock(store))
    for number, ahead in enumerate((0, 30 * DAY, 0, 0)):
        machine.passed, machine.ahead = number * MINUTE, ahead
        older.change(new(), lambda state: {"a": int64(state.position)})
    assert older.moment(machine.truth).position == 1
    machine.passed += MINUTE
    newer.change(new(), lambda state: {"a": int64(9)})
    assert newer.moment(machine.truth).position == 5
    assert newer.moment(machine.truth - 1).position == 1
    older.change(new(), lambda state: {"a": int64(10)})
    assert newer.moment(machine.truth).position == 6


def test_time_travel_reads_few_entries_of_many(machine: Machine) -> None:
    store = directory(machine)
    journal = Journal(store, "j", clock=Clock(store))
    for number in range(600):
        machine.passed += MINUTE
        machine.ahead = 30 * DAY if number % 50 == 7 else 0
        journal.change(new(), lambda state: {"a": int64(state.position)})
    counting = FaultyStore(store, lambda number, name, key: None)
    reader = Journal(counting, "j")
    reader.read()
    for number in (1, 57, 300, 599):
        counting.calls.clear()
        assert reader.moment(START + number * MINUTE).position in (number, number - 1)
        assert len(counting.calls) < 15


# ---- verbs in the shadow of a wrong commit


@pytest.fixture
def shadowed(machine: Machine) -> World:
    """A directory in which the last commit is dated 30 days ahead."""
    world = World(machine, directory(machine))
    world.commit()
    world.commit(30 * DAY)
    machine.passed += MINUTE
    return world


def test_a_merge_a_rebase_and_a_group_correct_a_wrong_date(shadowed: World) -> None:
    machine, pool = shadowed.machine, shadowed.pool()
    pool.names.create_branch("side", pool.resolve())
    side = shadowed.load(pool, "side")
    machine.passed += MINUTE
    merged = changes.merge(shadowed.pool(), "side", MAIN, ME)
    assert shadowed.at(machine.truth) == merged
    machine.passed, machine.ahead = machine.passed + MINUTE, 60 * DAY
    shadowed.load(shadowed.pool())
    machine.passed, machine.ahead = machine.passed + MINUTE, 0
    assert changes.rebase(shadowed.pool(), "side", MAIN) not in (side, None)
    assert shadowed.at(machine.truth) == shadowed.pool().resolve()
    machine.ahead = 90 * DAY
    shadowed.load(shadowed.pool())
    machine.passed, machine.ahead = machine.passed + MINUTE, 0
    group = [changes.load(MAIN, shadowed.data(pool), ME) for _ in range(3)]
    outcomes = shadowed.pool().committer.commit_all(group)
    assert shadowed.at(machine.truth) == outcomes[-1]


def test_history_that_was_cut_is_read_by_time(shadowed: World) -> None:
    kept = shadowed.commit()
    vacuum.vacate(shadowed.pool(), kept)
    last = shadowed.commit()
    assert shadowed.at(shadowed.machine.truth) == last
    assert shadowed.at(shadowed.machine.truth - 1) == kept


def test_a_branch_whose_entry_corrects_others_is_created_once(shadowed: World) -> None:
    op = new()
    for _ in range(2):
        pool = shadowed.pool()
        pool.names.create_branch("side", pool.resolve(), op)
    assert [ref.name for ref in Refs(shadowed.pool().journal.read()).branches()] == [MAIN, "side"]
    assert shadowed.corrections() == 1


# ---- warnings


def test_a_time_before_commits_of_the_future_is_warned_of(shadowed: World) -> None:
    (warning,) = shadowed.warnings(shadowed.machine.truth)
    assert "in the future" in warning
    assert "logs@2027" in warning
    shadowed.commit()
    assert shadowed.warnings(shadowed.machine.truth) == []
    assert shadowed.warnings(shadowed.machine.truth + 90 * DAY) == []


def test_a_time_near_a_corrected_clock_is_warned_of(shadowed: World) -> None:
    shadowed.commit()
    (warning,) = shadowed.warnings(shadowed.machine.truth - 1)
    assert "a clock was wrong" in warning
    shadowed.commit()
    assert shadowed.warnings(shadowed.machine.truth) == []
    assert shadowed.warnings(shadowed.commits[0][0] - 1) == []


def test_a_time_that_a_late_commit_may_have_changed_is_warned_of(machine: Machine) -> None:
    world = World(machine, directory(machine))
    for _ in range(4):
        world.commit(after=DAY)
    world.commit(-2 * DAY)
    assert len(world.warnings(world.commits[2][0])) == 1
    world.commit()
    assert world.warnings(world.commits[2][0]) == []
    assert len(world.warnings(world.commits[3][0])) == 1


def test_clocks_that_are_right_warn_of_nothing(machine: Machine) -> None:
    world = World(machine, cloud(machine))
    for number in range(4):
        world.commit(MINUTE // 2 * (number % 2))
    assert [text for at, _ in world.commits for text in world.warnings(at)] == []


# ---- writing


@pytest.mark.parametrize("kind", [share, cloud])
@pytest.mark.parametrize("ahead", [FAR, 30 * DAY, -30 * DAY])
def test_a_writer_with_a_wrong_clock_takes_the_time_of_the_store(machine: Machine, kind: Kind, ahead: int) -> None:
    world = World(machine, kind(machine))
    commit = world.commit(ahead)
    pool = world.pool()
    assert pool.commits.read(commit).date == machine.truth
    assert pool.journal.read().at == machine.truth


@every_store
def test_a_right_writer_is_not_stopped_by_commits_of_a_wrong_one(machine: Machine, kind: Kind) -> None:
    world = World(machine, kind(machine))
    journal = Journal(world.store, f"{world.pool().prefix}/branches")
    machine.ahead = 30 * DAY
    for _ in range(3):
        journal.change(new(), lambda state: {})  # as an older version does
    machine.ahead = 0
    assert world.commit() == world.at(machine.truth)
    assert world.pool().journal.read().at == machine.truth


def test_a_commit_asks_the_store_for_the_time_only_once(machine: Machine) -> None:
    counting = FaultyStore(cloud(machine), lambda number, name, key: None)
    world = World(machine, counting)
    counting.calls.clear()
    pool = world.pool()
    assert [name for name, key in counting.calls if key.startswith("probe/")].count("modified") == 1
    counting.calls.clear()
    for _ in range(5):
        machine.passed += DAY
        world.load(pool)
    assert [key for _, key in counting.calls if key.startswith("probe/")] == []


def test_a_clock_that_is_set_while_the_process_runs_is_noticed(machine: Machine) -> None:
    world = World(machine, cloud(machine))
    pool = world.pool()
    world.load(pool)
    machine.ahead = 30 * DAY
    machine.passed += MINUTE
    commit = world.load(pool)
    assert pool.commits.read(commit).date == machine.truth
    machine.ahead = 0
    machine.passed += MINUTE
    assert pool.commits.read(world.load(pool)).date == machine.truth


def test_a_machine_that_slept_keeps_its_right_clock(machine: Machine) -> None:
    slept = [0]  # the monotonic clock does not count it
    store = ClockedStore(lambda: machine.truth + slept[0], has_own_clock=True)
    clock = Clock(store, own=lambda: machine.truth + slept[0])
    assert clock.checked() == machine.truth
    slept[0] = 8 * HOUR
    assert clock.now() == machine.truth + 8 * HOUR


def test_a_store_that_does_not_say_the_time_leaves_a_writer_its_own(machine: Machine) -> None:
    store = FaultyStore(cloud(machine), lambda number, name, key: Fault.ERROR if name == "modified" else None)
    world = World(machine, store)
    commit = world.commit(30 * DAY)
    assert world.pool().commits.read(commit).date == machine.truth + 30 * DAY
    assert world.commit() == world.at(machine.truth)


# ---- random clocks against a model


class Model:
    """The times that entries count by, as one list. It remembers the list as it was before each step back."""

    def __init__(self, is_confirmed: bool) -> None:
        self.times: list[int] = []
        self._is_confirmed = is_confirmed
        self._open: list[tuple[list[int], int]] = []
        """Lists from before a step back, and how many entries that changed."""

    def add(self, now: int) -> None:
        """An entry by a writer whose clock says a time."""
        last = self.times[-1] if self.times else 0
        if last - now >= FAR:
            if not self._is_confirmed:
                self._open.append((self.times, sum(at > now for at in self.times)))
            self.times = [min(at, now) for at in self.times] + [now]
        else:
            self._settle(max(last, now))
            self.times = [*self.times, max(last, now)]

    def _settle(self, now: int) -> None:
        for number, (before, changed) in enumerate(self._open):
            if before[-1] <= now and len(self.times) - len(before) < changed:
                self.times = before + [now] * (len(self.times) - len(before))
                self._open = self._open[:number]
                break
        self._open = [each for each in self._open if each[0][-1] > now]

    def last_by(self, ns: int) -> int:
        """The last entry that counts as made by a time."""
        return sum(at <= ns for at in self.times)


AHEAD = st.sampled_from([0, 0, 0, MINUTE, HOUR - MINUTE, HOUR, 3 * HOUR, DAY, -MINUTE, -HOUR, -3 * HOUR, -DAY])
STEPS = st.lists(st.tuples(st.sampled_from([1, MINUTE, HOUR, 5 * HOUR, DAY]), AHEAD), max_size=40)


@pytest.mark.parametrize("is_confirmed", [False, True])
@given(steps=STEPS)
def test_time_travel_with_random_clocks_is_that_of_the_model(is_confirmed: bool, steps: list[tuple[int, int]]) -> None:
    store, model, clocks = Journals(is_confirmed), Model(is_confirmed), []
    for passed, ahead in steps:
        now = store.write(passed, ahead)
        model.add(now)
        clocks.append(now)
    journal = store.open()
    assert effective_times(list(journal.entries())) == model.times == sorted(model.times)
    for ns in {ns for at in (*clocks, *model.times) for ns in (at - 1, at, at + 1)}:
        assert journal.moment(ns).position == model.last_by(ns)


class Journals:
    """A journal and its writers, each of which believes its own clock: the store does not say that it is wrong."""

    def __init__(self, is_confirmed: bool) -> None:
        self._now = START
        self._wrong = 0
        self._store = ClockedStore(lambda: self._now + self._wrong, has_own_clock=is_confirmed)

    def open(self) -> Journal:
        """The journal as a new process opens it."""
        clock = Clock(self._store, own=lambda: self._now + self._wrong)
        return Journal(self._store, "j", Patience(), clock)

    def write(self, passed: int, ahead: int) -> int:
        """Add an entry; the time by the clock of its writer."""
        self._now += passed
        self._wrong = ahead
        self.open().change(new(), lambda state: {"a": int64(state.position)})
        return self._now + self._wrong
