"""Clients of one pool whose storage calls are interleaved by a seed, with faults, late writes and crashes.

After each run the journal is read as what it is, a list of operations one after the other, and done again in the
model: so each operation had its effect once, at one moment, or none. `SHOAL_SEED=n` runs one seed alone.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from shoal.errors import InvalidInput, OutcomeUnknown, ShoalError, StorageFailure
from shoal.ids import Id, new, parse, to_text
from shoal.lake import changes, journal, rewriting, sessions
from shoal.lake.branches import Refs
from shoal.lake.claims import Patience
from shoal.lake.commits import Commit, Commits, Note
from shoal.lake.committer import Committer
from shoal.lake.journal import Entry, Journal
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import create, open_lake
from shoal.lake.objects import DataObject
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool, open_pool
from shoal.lake.scans import scan, scan_objects
from shoal.model.fields import NO_ID
from shoal.model.values import Value, int64, record, string
from shoal.storage.faults import Crash, Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import Created, ObjectStore
from shoal.testing import lake_model
from shoal.testing.lake_checks import check_columns, reading_once
from shoal.testing.lineage_checks import REMOVES_WHAT_IS_GONE, layout_after
from shoal.testing.scheduler import Scheduler, Weather
from shoal.testing.tiers import IS_LONG

SEEDS = 1_000_000 if IS_LONG else 5_000
PARTS = 4
"""Of the seeds, so that several processes can look at them."""
MOST_CLIENTS = 5
PATIENCE = Patience(deadline=0.02, refusals=2)
"""Little, so that outcomes are often unknown."""
WEATHERS = (
    Weather(),
    Weather(faults=0.1),
    Weather(faults=0.05, crashes=0.05),
    Weather(faults=0.2, crashes=0.01, landings=0.05),
    Weather(creates=0.4),
    Weather(creates=0.5, crashes=0.01),
    Weather(faults=0.01, creates=0.6, crashes=0.01, landings=0.1),
)


# ---- what clients do


@dataclass
class Deed:
    """An operation, as far as its client knows what became of it."""

    label: str
    """The message of its commit."""
    verb: str
    branch: str
    other: str = ""
    """The branch to merge, or to rebase onto."""
    op: Id | None = None
    values: list[Value] = field(default_factory=list)
    keeps_position: bool = False
    """Whether the client remembers where the journal stood, as a transaction does."""
    after: int | None = None
    may_be_done: bool = False
    """An attempt had an unknown outcome, or ended in a crash."""
    is_done: bool = False
    commit: Id | None = None
    why: str = ""

    @property
    def note(self) -> Note:
        return Note("tester", self.label)

    @property
    def may_join(self) -> bool:
        """Whether it goes together with others like it."""
        return self.verb == "load" and self.op is not None and not self.keeps_position


def _load(pool: Pool, deed: Deed, random: Random) -> Id:
    if deed.keeps_position and deed.after is None:
        deed.after = pool.journal.read().position
    writer = pool.writer()
    for value in deed.values:
        writer.write(value)
    return pool.committer.commit(changes.load(deed.branch, writer.close(), deed.note, deed.op, deed.after))


def _load_all(pool: Pool, deeds: list[Deed]) -> list[Id | ShoalError]:
    loads = []
    for deed in deeds:
        writer = pool.writer()
        for value in deed.values:
            writer.write(value)
        assert deed.op is not None
        loads.append(changes.load(deed.branch, writer.close(), deed.note, deed.op))
    return pool.committer.commit_all(loads)


def groups(deeds: list[Deed]) -> Iterator[list[Deed]]:
    """Deeds one by one, but for loads to one branch that follow each other."""
    keys = itertools.groupby(enumerate(deeds), lambda item: item[1].branch if item[1].may_join else item[0])
    return ([deed for _, deed in found] for _, found in keys)


def _some(pool: Pool, branch: str, random: Random, most: int) -> list[Id]:
    """Objects of a branch, at random, as it is now."""
    there = [o.id for o in pool.snapshot(pool.refs().branch(branch).commit).objects()]
    return random.sample(there, min(most, len(there)))


def _delete(pool: Pool, deed: Deed, random: Random) -> Id:
    return changes.delete(pool, deed.branch, _some(pool, deed.branch, random, 1), deed.note)


def _compact(pool: Pool, deed: Deed, random: Random) -> Id:
    tip = rewriting.compact(pool, deed.branch, _some(pool, deed.branch, random, 2), deed.note)
    if pool.commits.read(tip).note.message != deed.label:
        raise InvalidInput("others have compacted these objects")
    return tip


def _merge(pool: Pool, deed: Deed, random: Random) -> Id:
    return changes.merge(pool, deed.other, deed.branch, deed.note)


def _rebase(pool: Pool, deed: Deed, random: Random) -> Id | None:
    return changes.rebase(pool, deed.branch, deed.other)


def _branch(pool: Pool, deed: Deed, random: Random) -> Id | None:
    at = pool.refs().branch(deed.other).commit
    pool.names.create_branch(deed.branch, at)
    return at


VERBS: dict[str, Callable[[Pool, Deed, Random], Id | None]] = {
    "load": _load,
    "delete": _delete,
    "compact": _compact,
    "merge": _merge,
    "rebase": _rebase,
    "branch": _branch,
}
OFTEN = ("load", "load", "load", "load", "delete", "compact", "merge", "branch", "rebase")


class Client:
    """Does its deeds one after the other; after a crash it opens the lake anew and repeats what it can."""

    def __init__(self, store: FaultyStore, deeds: list[Deed], random: Random) -> None:
        self._store = store
        self._random = random
        self._pool: Pool | None = None
        self.deeds = deeds

    def work(self) -> None:
        for together in groups(self.deeds):
            while together:
                outcomes = self._attempt(together)
                together = [
                    deed for deed, outcome in zip(together, outcomes, strict=True) if not self._is_over(deed, outcome)
                ]

    def _attempt(self, deeds: list[Deed]) -> list[Id | BaseException | None]:
        """What became of deeds, of which several are loads that go together."""
        try:
            if len(deeds) > 1:
                return [*_load_all(self._open(), deeds)]
            return [VERBS[deeds[0].verb](self._open(), deeds[0], self._random)]
        except (Crash, ShoalError) as e:
            return [e for _ in deeds]

    def _is_over(self, deed: Deed, outcome: Id | BaseException | None) -> bool:
        """Whether there is nothing more to do about a deed."""
        match outcome:
            case Crash():
                self._pool = None
                deed.may_be_done = True
            case OutcomeUnknown():
                deed.may_be_done = True
                assert deed.op is None or outcome.commit == to_text(deed.op)
            case StorageFailure():  # certainly not done
                deed.why = str(outcome)
                if self._random.random() < 0.3:
                    return True
            case BaseException():
                deed.why = str(outcome)
                return True
            case _:
                deed.is_done = True
                deed.commit = outcome
        return deed.is_done or (deed.op is None and deed.may_be_done)

    def _open(self) -> Pool:
        if self._pool is None:
            self._pool = open_pool(self._store, open_lake(self._store).pool("p").config, PATIENCE)
        return self._pool


def deeds_of(client: int, random: Random) -> list[Deed]:
    """Up to three deeds, of which half are loads."""
    out = []
    is_group = random.random() < 0.3
    for i in range(random.randint(1, 3)):
        label, verb = f"{client}-{i}", "load" if is_group else random.choice(OFTEN)
        branch, other = random.choice((("main", "b"), ("main", "b"), ("b", "main")))
        if verb == "load":
            values = [number(random.randint(0, 9), 100 * client + 10 * i + n) for n in range(random.randint(1, 2))]
            out.append(Deed(label, verb, branch, op=new(), values=values, keeps_position=random.random() < 0.3))
        elif verb == "branch":
            out.append(Deed(label, verb, random.choice(("c", "d")), branch))
        else:
            out.append(Deed(label, verb, branch, other))
    return out


def all_deeds(clients: int, random: Random) -> list[list[Deed]]:
    """The deeds of each client. At times one repeats a load of another, as after a request that got lost."""
    out = [deeds_of(i, random) for i in range(clients)]
    loads = [deed for deed in out[0] if deed.op is not None]
    if loads and random.random() < 0.3:
        loads[0].keeps_position = False
        out[1].insert(random.randint(0, len(out[1])), replace(loads[0]))
    return out


def number(key: int, ident: int) -> Value:
    """A record with a field of which neither the name nor the type is always the same."""
    extra = int64(ident) if ident % 2 else string(str(ident))
    return record([("k", int64(key)), ("id", int64(ident)), (f"x{ident % 3}", extra)])


# ---- what must be true afterwards

IN_THE_JOURNAL_TWICE = "an operation is in the journal twice"
IS_LOST = "was acknowledged, and is not in the journal"


class Replay:
    """The journal, entry by entry, done again in the model."""

    def __init__(self, pool: Pool, deeds: dict[str, Deed]) -> None:
        self.pool = pool
        self.deeds = deeds
        self.model = lake_model.Pool("p", "k")
        self.landed: Counter[str] = Counter()
        """How often each label is in the journal."""

    def apply(self, entry: Entry) -> None:
        if entry.group:
            ((key, value),) = entry.changes.items()
            for ident in entry.group.values():
                commit = self.pool.commits.read(ident)
                assert text(commit.parent) == self.model.branches[key.partition("/")[2]], "a group is no chain"
                self._land(key.partition("/")[2], commit)
            assert changes_commit(entry, key.partition("/")[2]) == [*entry.group.values()][-1]
            return
        for key, value in entry.changes.items():
            kind, _, name = key.partition("/")
            assert kind == "branch"
            assert value is not None
            at = value.field("commit")
            assert at is not None
            self._set(name, None if at.data == NO_ID else Id(at.data))

    def _set(self, branch: str, ident: Id | None) -> None:
        model = self.model
        if branch not in model.branches or ident is None:
            assert ident is None or to_text(ident) in model.commits, f"{branch} begins at a commit that nobody made"
            model.branches[branch] = text(ident)
            return
        commit = self.pool.commits.read(ident)
        if to_text(ident) in model.commits or text(commit.parent) != model.branches[branch]:
            self._rebased(branch, ident)
        else:
            self._land(branch, commit)

    def _land(self, branch: str, commit: Commit) -> None:
        """A commit on top of the one that was the tip until then."""
        label = commit.note.message
        deed = self.deeds.get(label, Deed(label, "load", branch))
        assert deed.branch == branch
        self.landed[label] += 1
        before = self.model.layout(self.model.branches[branch])
        layout = self._layout(before, commit)
        made = self._made(commit)
        change = self._change(deed, commit, made, before, layout)
        self.model.land(branch, change, to_text(commit.id), layout, made, label)
        self._compare(commit)

    def _layout(self, before: lake_model.Layout, commit: Commit) -> lake_model.Layout:
        try:
            return layout_after(self.pool.store, self.pool.prefix, before, commit.actions)
        except AssertionError as e:
            raise AssertionError(f"{commit.note.message} {e}") from None

    def _made(self, commit: Commit) -> dict[str, list[Value]]:
        return {to_text(o.id): self._read(o) for o in commit.adds if to_text(o.id) not in self.model.objects}

    def _change(
        self,
        deed: Deed,
        commit: Commit,
        made: dict[str, list[Value]],
        before: lake_model.Layout,
        after: lake_model.Layout,
    ) -> lake_model.Change:
        model = self.model
        match deed.verb:
            case "load":
                values = deed.values or [value for values in made.values() for value in values]
                return model.load(deed.branch, values)
            case "delete":
                gone = lake_model.rows_of(before) - lake_model.rows_of(after)
                assert {first for first, _ in gone}, f"{deed.label} deletes nothing"
                return lake_model.Change(gone=gone)
            case "compact":
                return lake_model.Change()
            case "merge":
                assert commit.merged is None or to_text(commit.merged) in model.commits, "merges what nobody made"
                return model.merge(deed.other, deed.branch, text(commit.merged))
        raise AssertionError(f"{deed.verb} makes no commit")

    def _rebased(self, branch: str, ident: Id) -> None:
        """A branch whose own commits were done again on the tip of another one."""
        onto = "main" if branch == "b" else "b"
        steps = self.model.rebase(branch, onto)
        tip = self.model.branches[onto]
        chain = list(self.pool.commits.walk(ident, None if tip is None else parse(tip)))[::-1]
        assert [c.note.message for c in chain] == [old.message for old, _ in steps]
        for commit, (_, change) in zip(chain, steps, strict=True):
            layout = self._layout(self.model.layout(tip), commit)
            tip = self.model.add(tip, change, to_text(commit.id), layout, self._made(commit), commit.note.message)
            self._compare(commit)
        self.model.branches[branch] = tip
        assert tip == to_text(ident)

    def _compare(self, commit: Commit) -> None:
        ours = self.model.commits[to_text(commit.id)]
        assert (ours.parent, ours.merged) == (text(commit.parent), text(commit.merged))
        assert (ours.adds, ours.deletes) == (idents(commit.adds), idents(commit.deletes))

    def _read(self, o: DataObject) -> list[Value]:
        return list(scan_objects(self.pool, [replace(o, mask=None, count=o.rows)]))


def text(ident: Id | None) -> str | None:
    return None if ident is None else to_text(ident)


def idents(objects: tuple[DataObject, ...]) -> frozenset[str]:
    return frozenset(to_text(o.id) for o in objects)


@reading_once()
def check(store: ObjectStore, deeds: list[Deed]) -> None:
    """All that was promised, of a store that nobody uses any more."""
    pool = open_lake(store).pool("p")
    entries = list(pool.journal.entries())
    slots = sorted(key for key in (listed.key for listed in store.list()) if re.search(r"/branches/\d{20}\.zng$", key))
    assert slots == [f"{pool.prefix}/branches/{n:020d}.zng" for n in range(1, len(entries) + 1)], "gaps"
    ops = Counter(op for entry in entries for op in (entry.op, *entry.group))
    assert max(ops.values()) == 1, IN_THE_JOURNAL_TWICE
    replay = Replay(pool, {deed.label: deed for deed in deeds})
    for entry in entries:
        replay.apply(entry)
    possible = {deed.label for deed in deeds if deed.is_done or deed.may_be_done}
    for deed in deeds:
        _check_deed(deed, entries, replay, possible)
    _check_state(pool, replay.model)
    check_columns(store, pool)
    _check_next(pool, replay.model, len(entries))


def _check_deed(deed: Deed, entries: list[Entry], replay: Replay, possible: set[str]) -> None:
    """Acknowledged: there once, with the commit that the client was told. Refused by all who tried: not there."""
    ours = [
        entry.group.get(deed.op, changes_commit(entry, deed.branch))
        for entry in entries
        if deed.op is not None and deed.op in (entry.op, *entry.group)
    ]
    if deed.is_done and deed.op is not None:
        assert ours, f"{deed.label} {IS_LOST}"
        assert ours == [deed.commit], f"{deed.label} was told of another commit than is in the journal"
    if deed.verb in ("rebase", "branch"):
        return
    count = replay.landed[deed.label]
    if deed.is_done:
        assert count, f"{deed.label} {IS_LOST}"
        assert count == 1, f"{deed.label} was acknowledged, and is in the journal {count} times"
        told = replay.model.commits.get(text(deed.commit) or "")
        assert told is not None, f"{deed.label} was told of a commit that is not there"
        assert told.message == deed.label
    elif deed.label in possible:
        assert count <= 1, f"{deed.label} is in the journal {count} times"
    else:
        assert count == 0, f"{deed.label} is said not to have happened ({deed.why}), and is in the journal"


def changes_commit(entry: Entry, branch: str) -> Id | None:
    value = entry.changes.get(f"branch/{branch}")
    found = None if value is None else value.field("commit")
    return None if found is None else Id(found.data)


def _check_state(pool: Pool, model: lake_model.Pool) -> None:
    """Whoever opens the pool finds the branches and values that the operations come to."""
    refs = Refs(pool.journal.read())
    assert {ref.name: text(ref.commit) for ref in refs.branches()} == model.branches, "HEAD or a snapshot misleads"
    for ref in refs.branches():
        found = list(scan(pool, ref.commit))
        assert Counter(found) == model.values(text(ref.commit)), f"not the values of {ref.name}"
        keys = [key.data for key in (value.field("k") for value in found) if key is not None]
        assert keys == sorted(keys)
        chain = [to_text(commit.id) for commit in pool.log(ref.commit)]
        assert chain == [commit.id for commit in model.log(text(ref.commit))]


def _check_next(pool: Pool, model: lake_model.Pool, position: int) -> None:
    """A new commit goes in, at the next slot."""
    before = model.values(model.branches["main"])
    deed = Deed("next", "load", "main", op=new(), values=[number(5, 9999)])
    landed = _load(pool, deed, Random())
    assert pool.journal.read().position == position + 1
    assert Counter(scan(pool, landed)) == before + Counter(deed.values)


# ---- running


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """A scheduler, and a lake that leaves hints and checkpoints all the time."""
    monkeypatch.setattr("shoal.lake.journal.HEAD_EVERY", 2)
    monkeypatch.setattr("shoal.lake.journal.SNAPSHOT_EVERY", 4)
    monkeypatch.setattr("shoal.lake.snapshots.CHECKPOINT_EVERY", 3)
    monkeypatch.setattr("shoal.lake.checkpoints.PAGE", 2)
    monkeypatch.setattr("shoal.lake.committer.AT_ONCE", 1)
    made = Scheduler(MOST_CLIENTS)
    made.install(monkeypatch)
    return made


def template() -> dict[str, bytes]:
    """A lake with one pool, two branches and two objects."""
    store = MemoryStore()
    pool = create(store).create_pool(PoolConfig(new(), "p", parse_sort_key("k")))
    for i in range(2):
        _load(pool, Deed(f"first {i}", "load", "main", op=new(), values=[number(4 * i, i)]), Random())
    pool.names.create_branch("b", pool.refs().branch("main").commit)
    return {listed.key: store.get(listed.key) for listed in store.list()}


Plant = Callable[[pytest.MonkeyPatch], None]


def nothing(patch: pytest.MonkeyPatch) -> None:
    """Leave the lake as it is."""


def copy(lake: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for key, data in lake.items():
        store.put(key, data)
    return store


def play(
    scheduler: Scheduler, lake: dict[str, bytes], seed: int, plant: Plant = nothing
) -> tuple[list[Deed], MemoryStore]:
    random = scheduler.begin(seed)
    store = copy(lake)
    deeds = all_deeds(random.randint(2, MOST_CLIENTS), random)
    clients = [Client(scheduler.wrap(store), theirs, random) for theirs in deeds]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        scheduler.run(random.choice(WEATHERS), [client.work for client in clients])
    return [deed for theirs in deeds for deed in theirs], store


def run_seed(scheduler: Scheduler, lake: dict[str, bytes], seed: int, plant: Plant = nothing) -> list[Deed]:
    deeds, store = play(scheduler, lake, seed, plant)
    check(store, deeds)
    return deeds


@pytest.mark.timeout(36_000 if IS_LONG else 600)
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_the_schedule_each_operation_is_in_the_journal_once_or_not_at_all(
    scheduler: Scheduler, part: int
) -> None:
    only = os.environ.get("SHOAL_SEED")
    seeds = range(part, SEEDS, PARTS) if only is None else range(int(only), int(only) + 1)
    lake = template()
    outcomes: Counter[str] = Counter()
    began = time.monotonic()
    for seed in seeds:
        try:
            for deed in run_seed(scheduler, lake, seed):
                kind = "done" if deed.is_done else "unknown" if deed.may_be_done else "refused"
                outcomes[f"{deed.verb} {kind}"] += 1
        except BaseException:
            print(f"replay with: SHOAL_SEED={seed} pytest {__file__}")
            raise
    print(f"{len(seeds)} seeds in {time.monotonic() - began:.1f} s: {dict(sorted(outcomes.items()))}")
    if only is None:
        assert all(outcomes[f"{verb} {kind}"] > 2 for verb in VERBS for kind in ("done", "unknown"))


def test_a_seed_is_a_schedule(scheduler: Scheduler) -> None:
    lake = template()
    for seed in range(30):
        (first, store), (second, again) = play(scheduler, lake, seed), play(scheduler, lake, seed)
        assert first == second
        assert contents(store) == contents(again)


def contents(store: MemoryStore) -> dict[str, bytes]:
    return {listed.key: store.get(listed.key) for listed in store.list()}


# ---- checking the checker


class Stranger(bytes):
    """An id that is like no other."""

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _no_own_ids(patch: pytest.MonkeyPatch) -> None:
    """Nobody recognises an entry as the own one."""
    parse_entry = journal._parse_entry

    def parse_strange(data: bytes, position: int, where: str) -> Entry:
        entry = parse_entry(data, position, where)
        group = {Id(Stranger(op)): made for op, made in entry.group.items()}
        return replace(entry, op=Id(Stranger(entry.op)), group=group)

    patch.setattr(journal, "_parse_entry", parse_strange)


def _no_looking_back(patch: pytest.MonkeyPatch) -> None:
    """A repeat does not look whether it was done before."""
    change = Journal.change
    patch.setattr(Journal, "change", lambda self, op, plan, after=None, meet=None: change(self, op, plan, None, meet))


def _no_checks(patch: pytest.MonkeyPatch) -> None:
    """What a change removes need not be there."""
    for module in (changes, sessions):
        patch.setattr(module, "fit", lambda pool, change, *_, **__: change)


def _told_too_early(patch: pytest.MonkeyPatch) -> None:
    """Success is reported although nothing is known."""
    claim = Journal._claim

    def hasty(self: Journal, entry: Entry) -> object:
        try:
            return claim(self, entry)
        except OutcomeUnknown:
            self._store = MemoryStore()
            return claim(self, entry)

    patch.setattr(Journal, "_claim", hasty)


def _blind_overwrites(patch: pytest.MonkeyPatch) -> None:
    """Claims of journal slots are puts."""
    create = MemoryStore.create

    def overwrite(self: MemoryStore, key: str, data: bytes) -> Created:
        if "/branches/" not in key:
            return create(self, key, data)
        self.put(key, data)
        return Created.LANDED

    patch.setattr(MemoryStore, "create", overwrite)


def _no_looking_into_groups(patch: pytest.MonkeyPatch) -> None:
    """An operation is looked for as that of an entry alone."""
    patch.setattr(Entry, "has", lambda self, op: self.op == op)


def _joins_again(patch: pytest.MonkeyPatch) -> None:
    """Who has been begun before stays in the group."""
    patch.setattr(Commits, "create", lambda self, commit: self.write(commit) or True)
    patch.setattr(Committer, "began_after", lambda self, op: None)


PLANTED = {
    _no_looking_into_groups: IN_THE_JOURNAL_TWICE,
    _joins_again: IN_THE_JOURNAL_TWICE,
    _no_own_ids: IN_THE_JOURNAL_TWICE,
    _no_looking_back: IN_THE_JOURNAL_TWICE,
    _no_checks: REMOVES_WHAT_IS_GONE,
    _told_too_early: IS_LOST,
    _blind_overwrites: IS_LOST,
}
"""Bugs, each with the invariant that it breaks."""


@pytest.mark.parametrize(("plant", "invariant"), PLANTED.items(), ids=[plant.__name__.strip("_") for plant in PLANTED])
def test_a_planted_bug_breaks_its_invariant_in_some_schedule(
    scheduler: Scheduler, plant: Plant, invariant: str
) -> None:
    lake = template()
    for seed in range(1_000):
        try:
            run_seed(scheduler, lake, seed, plant)
        except AssertionError as e:
            if invariant in str(e):
                print(f"seed {seed}: {e}")
                return
        except ShoalError:
            pass  # the lake itself has noticed that something is wrong, which is not what is to be shown here
    pytest.fail(f"in no schedule: {invariant}")


# ---- found by seeds, and shortened


def repeated(n: int = 1) -> Deed:
    return Deed("repeated", "load", "main", op=new(), values=[number(1, n)])


def labels(store: ObjectStore) -> list[str]:
    """What is in the history of main, the newest first."""
    pool = open_lake(store).pool("p")
    return [commit.note.message for commit in pool.log(pool.refs().branch("main").commit)]


def test_a_repeat_that_meets_its_own_late_entry_is_told_the_commit_of_that_entry() -> None:
    """The first attempt's put is under way when its client dies; it lands just before that of the second attempt."""
    inner = copy(template())
    slots: list[str] = []

    def choose(number: int, name: str, key: str) -> Fault | None:
        if name != "create" or "/branches/" not in key:
            return Fault.CRASH_BEFORE if len(slots) == 1 and not is_second else None
        slots.append(key)
        store.land_late()
        return Fault.LATE if len(slots) == 1 else None

    store, is_second, deed = FaultyStore(inner, choose), False, repeated()
    with pytest.raises(Crash):
        _load(open_lake(store).pool("p"), deed, Random())
    is_second = True
    pool = open_lake(store).pool("p")
    told = _load(pool, deed, Random())
    assert slots[0] == slots[1]
    assert told == open_lake(inner).pool("p").refs().branch("main").commit
    _load(pool, Deed("later", "load", "main", op=new(), values=[number(2, 2)]), Random())
    assert labels(inner) == ["later", "repeated", "first 1", "first 0"]


def test_a_repeat_is_recognised_although_the_commit_of_the_first_attempt_got_lost() -> None:
    """Of the create of that commit nothing is heard, and nothing ever comes of it; the entry lands, and is not told."""
    inner = copy(template())
    seen: set[str] = set()

    def choose(number: int, name: str, key: str) -> Fault | None:
        folder = key.split("/")[1] if name == "create" else ""
        if folder in seen or folder not in ("commits", "branches"):
            return None
        seen.add(folder)
        return Fault.DROPPED if folder == "commits" else Fault.CRASH_AFTER

    store, deed = FaultyStore(inner, choose), repeated()
    with suppress(Crash, StorageFailure):  # to see that the store cannot be trusted and to stop is right, too
        _load(open_lake(store).pool("p"), deed, Random())
    for _ in range(2):
        with suppress(Crash, StorageFailure):
            deed.commit = _load(open_lake(store).pool("p"), deed, Random())
    assert labels(inner) == ["repeated", "first 1", "first 0"]
    assert deed.commit == open_lake(inner).pool("p").refs().branch("main").commit


def test_two_attempts_of_one_operation_at_once_make_one_commit() -> None:
    """The second attempt comes when the first has found that it is the first, and reads the journal only then."""
    inner = copy(template())
    deed, told = repeated(), list[Id | None]()
    first = f"/commits/{to_text(deed.op or NO_ID)}.zng"

    def choose(number: int, name: str, key: str) -> Fault | None:
        if not told and any(called.endswith(first) for _, called in store.calls[-2:-1]):
            told.append(_load(open_lake(inner).pool("p"), deed, Random()))
        return None

    store = FaultyStore(inner, choose)
    pool = open_lake(store).pool("p")
    told.append(_load(pool, deed, Random()))
    assert labels(inner) == ["repeated", "first 1", "first 0"]
    assert told == [open_lake(inner).pool("p").refs().branch("main").commit] * 2


def after_landing(inner: ObjectStore, act: Callable[[], Fault | None]) -> FaultyStore:
    """A store where something happens to each call after an entry has landed."""

    def choose(number: int, name: str, key: str) -> Fault | None:
        has_landed = any(name == "create" and "/branches/" in key for name, key in store.calls[:-1])
        return act() if has_landed else None

    store = FaultyStore(inner, choose)
    return store


@pytest.mark.parametrize("keeps_position", [False, True])
def test_what_has_landed_is_not_said_to_have_failed_when_the_store_fails_right_after(keeps_position: bool) -> None:
    inner = copy(template())
    deed = replace(repeated(), keeps_position=keeps_position)
    with suppress(OutcomeUnknown):
        _load(open_lake(after_landing(inner, lambda: Fault.ERROR)).pool("p"), deed, Random())
    assert labels(inner) == ["repeated", "first 1", "first 0"]


@pytest.mark.parametrize("keeps_position", [False, True])
def test_what_has_landed_is_acknowledged_although_its_branch_is_rebased_right_after(keeps_position: bool) -> None:
    inner = copy(template())
    _load(open_lake(inner).pool("p"), Deed("main", "load", "main", op=new(), values=[number(2, 2)]), Random())
    deed = replace(repeated(), branch="b", keeps_position=keeps_position)
    rebased: list[Id | None] = []

    def rebase() -> None:
        if not rebased:
            rebased.append(changes.rebase(open_lake(inner).pool("p"), "b", "main"))

    told = _load(open_lake(after_landing(inner, rebase)).pool("p"), deed, Random())
    pool = open_lake(inner).pool("p")
    assert pool.commits.read(told).note.message == "repeated"
    assert sum(commit.note.message == "repeated" for commit in pool.log(pool.refs().branch("b").commit)) == 1
