"""Writers in each other's way: many at once, one that stalled, one with a wrong clock, one of another version; and
what is removed while somebody else is about to refer to it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.api.pool import Pool as PoolHandle
from shoal.errors import Conflict, NotFound, ReadOnly, ShoalError
from shoal.ids import Id, new, to_text
from shoal.lake import changes, rewriting, sessions, vacuum
from shoal.lake.actions import Patch, patch_of
from shoal.lake.commits import Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import create, is_immutable, open_lake
from shoal.lake.objects import DataObject
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.lake.scans import scan
from shoal.local.lake import LocalLake
from shoal.model.values import Value, int64, record
from shoal.planner.predicates import parse_predicate
from shoal.storage.cache import CachedStore
from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.local import LocalStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore
from shoal.testing.lake_checks import effective_times

WEEKS = 30 * 24 * 3600.0


def new_lake(store: ObjectStore) -> Pool:
    return create(store).create_pool(PoolConfig(new(), "p", parse_sort_key("k")))


def open_pool(store: ObjectStore) -> Pool:
    return open_lake(store).pool("p")


def number(n: int) -> Value:
    return record([("k", int64(n))])


def load(pool: Pool, n: int, branch: str = "main") -> Id:
    """One value as one object in one commit."""
    return pool.committer.commit(changes.load(branch, written(pool, n), Note("tester", str(n))))


def written(pool: Pool, n: int) -> list[DataObject]:
    writer = pool.writer()
    writer.write(number(n))
    return writer.close()


def values(pool: Pool, branch: str = "main") -> list[int]:
    """The numbers on a branch, as whoever opens the lake now finds them."""
    fresh = open_pool(pool.store)
    return [value.data[0] for value in scan(fresh, fresh.refs().branch(branch).commit)]


def messages(pool: Pool, branch: str = "main") -> list[str]:
    """The messages of a branch's history, oldest first."""
    fresh = open_pool(pool.store)
    return [commit.note.message for commit in fresh.log(fresh.refs().branch(branch).commit)][::-1]


# ---- many writers


def slow_store() -> ObjectStore:
    """A store that takes a millisecond for a call, so that all writers are in the middle of something."""
    return FaultyStore(MemoryStore(), lambda number, name, key: time.sleep(0.001))


@pytest.fixture(params=["memory", "slow", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    kinds: dict[str, Callable[[], ObjectStore]] = {
        "memory": MemoryStore,
        "slow": slow_store,
        "directory": lambda: LocalStore(tmp_path),
    }
    return kinds[request.param]()


WRITERS, EACH = 50, 3


@pytest.mark.parametrize("is_shared", [False, True], ids=["handles of their own", "one handle"])
def test_fifty_writers_on_one_branch_all_finish(store: ObjectStore, is_shared: bool) -> None:
    shared = new_lake(store)

    def write(writer: int) -> list[Id]:
        pool = shared if is_shared else open_pool(store)
        return [load(pool, writer * EACH + i) for i in range(EACH)]

    began = time.monotonic()
    with ThreadPoolExecutor(WRITERS) as threads:
        told = [commit for commits in threads.map(write, range(WRITERS)) for commit in commits]
    print(f"{WRITERS} writers, {EACH} commits each: {time.monotonic() - began:.1f} s")
    pool = open_pool(store)
    entries = list(pool.journal.entries(after=1))
    chain = [commit.id for commit in pool.log(pool.refs().branch("main").commit)]
    assert len(entries) == len({entry.op for entry in entries}) == WRITERS * EACH
    assert sorted(chain) == sorted(told)
    assert values(pool) == list(range(WRITERS * EACH))


# ---- a writer that stalled


def stalled(pool: Pool, patch: Patch) -> sessions.Session:
    """A session as it comes back from the disk of a machine that slept."""
    session = sessions.stage(sessions.begin(pool, "main"), patch)
    restored: sessions.Session = pickle.loads(pickle.dumps(session))
    return restored


def test_a_writer_that_stalled_over_a_hundred_commits_of_others_adds_its_data_after_theirs() -> None:
    store = MemoryStore()
    slow, fast = new_lake(store), open_pool(store)
    session = stalled(slow, patch_of(written(slow, 1000)))
    for n in range(100):
        load(fast, n)
    commit = sessions.commit(slow, session, Note("slow", "at last"))
    assert messages(fast) == [*map(str, range(100)), "at last"]
    assert values(fast) == [*range(100), 1000]
    assert fast.journal.read().position == 102
    assert sessions.commit(slow, session, Note("slow", "again")) == commit
    assert fast.journal.read().position == 102


def test_a_writer_that_stalled_deletes_what_nobody_else_has_touched() -> None:
    store = MemoryStore()
    slow, fast = new_lake(store), open_pool(store)
    load(slow, -1)
    session = stalled(slow, patch_of((), slow.snapshot(slow.refs().branch("main").commit).objects()))
    for n in range(100):
        load(fast, n)
    sessions.commit(slow, session, Note("slow", "at last"))
    assert values(fast) == list(range(100))


def test_a_writer_that_stalled_gets_a_conflict_that_names_the_commit_and_the_object_in_its_way() -> None:
    store = MemoryStore()
    slow, fast = new_lake(store), open_pool(store)
    load(slow, -1)
    (victim,) = slow.snapshot(slow.refs().branch("main").commit).objects()
    session = stalled(slow, patch_of(written(slow, 1000), (victim,)))
    culprit = changes.delete(fast, "main", [victim.id], Note("fast", "first"))
    for n in range(100):
        load(fast, n)
    with pytest.raises(Conflict) as caught:
        sessions.commit(slow, session, Note("slow", "too late"))
    assert to_text(culprit) in str(caught.value)
    assert to_text(victim.id) in str(caught.value)
    assert values(fast) == list(range(100))
    assert messages(fast) == ["-1", "first", *map(str, range(100))]


# ---- a clock that goes back

LAKE_MODULES = ("clocks", "journal", "sessions", "lake")


class Skewed:
    """Stands for the module `time`, with a wall clock that is wrong by what `skew` says each time."""

    def __init__(self, skew: Callable[[], float]) -> None:
        self._skew = skew
        self.sleep = time.sleep
        self.monotonic = time.monotonic

    def time(self) -> float:
        return time.time() + self._skew()

    def time_ns(self) -> int:
        return time.time_ns() + int(self._skew() * 1e9)


def work_by_turns(store: ObjectStore) -> Iterator[object]:
    """All kinds of changes by two clients; what they come to, after each."""
    clients = [new_lake(store), open_pool(store)]
    for n in range(10):
        load(clients[n % 2], n)
        yield values(clients[0])
    clients[0].names.create_branch("b", clients[1].refs().branch("main").commit)
    load(clients[1], 20, "b")
    changes.merge(clients[0], "b", "main", Note("", "merge"))
    yield values(clients[1])
    last = load(clients[1], 30)
    changes.revert(clients[0], "main", last, Note("", "revert"))
    yield values(clients[1])
    gone = next(clients[1].snapshot(clients[1].refs().branch("main").commit).objects())
    changes.delete(clients[1], "main", [gone.id], Note("", "delete"))
    session = sessions.stage(sessions.begin(clients[0], "main"), patch_of(written(clients[0], 40)))
    load(clients[1], 50)
    sessions.commit(clients[0], session, Note("", "session"))
    changes.rebase(clients[1], "b", "main")
    yield values(clients[0], "b")
    vacuum.collect(clients[0])
    yield messages(clients[0]), messages(clients[0], "b"), values(clients[0])
    yield [list(entry.changes) for entry in clients[1].journal.entries()]


def jumps_back() -> Callable[[], float]:
    """The clock goes back by an hour in the middle of the work."""
    calls = iter(range(10**9))
    return lambda: 0.0 if next(calls) < 60 else -3600.0


def disagrees() -> Callable[[], float]:
    """Two machines, whose clocks are an hour apart, take turns."""
    calls = iter(range(10**9))
    return lambda: -3600.0 * (next(calls) % 2)


@pytest.mark.parametrize("skew", [jumps_back, disagrees])
def test_a_clock_that_goes_back_an_hour_changes_no_result(
    monkeypatch: pytest.MonkeyPatch, skew: Callable[[], Callable[[], float]]
) -> None:
    expected = list(work_by_turns(MemoryStore()))
    clock, store = Skewed(skew()), MemoryStore()
    for module in LAKE_MODULES:
        monkeypatch.setattr(f"shoal.lake.{module}.time", clock)
    monkeypatch.setattr("shoal.ids.time", clock)
    assert list(work_by_turns(store)) == expected
    for journal in (open_pool(store).journal, open_lake(store)._journal):
        times = effective_times(list(journal.entries()))
        assert times == sorted(times)


def test_a_time_of_the_past_is_found_although_the_clock_went_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store = Skewed(disagrees()), MemoryStore()
    for module in LAKE_MODULES:
        monkeypatch.setattr(f"shoal.lake.{module}.time", clock)
    pool = new_lake(store)
    for n in range(20):
        load(pool, n)
    journal = open_pool(store).journal
    for entry in list(journal.entries()):
        last = max(other.position for other in journal.entries() if other.at <= entry.at)
        assert journal.moment(entry.at).position == last


# ---- another version

VERBS: dict[str, Callable[[LocalLake, PoolHandle, str], object]] = {
    "create a pool": lambda lake, pool, commit: lake.create("q"),
    "rename": lambda lake, pool, commit: lake.rename("p", "q"),
    "drop": lambda lake, pool, commit: lake.drop("p"),
    "load": lambda lake, pool, commit: pool.load([{"k": 1}]),
    "delete": lambda lake, pool, commit: pool.delete([commit]),
    "delete where": lambda lake, pool, commit: pool.delete(where="k > 0"),
    "compact": lambda lake, pool, commit: pool.compact([o.id for o in pool.objects()]),
    "revert": lambda lake, pool, commit: pool.revert(commit),
    "cherry-pick": lambda lake, pool, commit: pool.cherry_pick(commit),
    "merge": lambda lake, pool, commit: pool.merge("b"),
    "rebase": lambda lake, pool, commit: pool.branch("b").rebase("main"),
    "branch": lambda lake, pool, commit: pool.create_branch("c"),
    "drop a branch": lambda lake, pool, commit: pool.drop_branch("b"),
    "tag": lambda lake, pool, commit: pool.create_tag("t"),
    "drop a tag": lambda lake, pool, commit: pool.drop_tag("v1"),
    "vacuum": lambda lake, pool, commit: pool.vacuum(grace=0),
    "vacate": lambda lake, pool, commit: pool.vacate(commit),
    "purge": lambda lake, pool, commit: pool.purge([commit]),
    "transaction": lambda lake, pool, commit: pool.transaction().__enter__(),
    "load operator": lambda lake, pool, commit: list(lake.query("from p | load p")),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_lake_with_a_feature_that_is_not_known_is_read_and_not_written(
    monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    store = MemoryStore()
    with monkeypatch.context() as newer:
        newer.setattr("shoal.lake.lake.FEATURES", frozenset({"from-the-future"}))
        pool = LocalLake(create(store)).create("p", key="k")
        commit = pool.load([{"k": 1}])
        pool.create_tag("v1")
        pool.load([{"k": 2}])
        pool.create_branch("b")
        pool.branch("b").load([{"k": 3}])
    lake = LocalLake(open_lake(store))
    before = {listed.key: store.get(listed.key) for listed in store.list()}
    with pytest.raises(ReadOnly, match="from-the-future"):
        VERBS[verb](lake, lake.pool("p"), commit)
    assert {listed.key: store.get(listed.key) for listed in store.list()} == before
    assert [value.data for value in lake.query("from p@b | sort k")] == [(1,), (2,), (3,)]
    assert lake.pool("p").resolve("v1") == commit


# ---- what is removed while somebody is about to refer to it


class Meanwhile:
    """A store that lets somebody else do something, once, just before a call that fits."""

    def __init__(self, store: ObjectStore, name: str, folder: str, act: Callable[[], object]) -> None:
        self._fits = (name, folder)
        self._act: Callable[[], object] | None = act
        self.is_done = False
        self.store = FaultyStore(store, self._before)

    def _before(self, number: int, name: str, key: str) -> Fault | None:
        if (name, *key.split("/")[1:2]) == self._fits and not self.is_done and self._act is not None:
            self.is_done = True
            self._act()
        return None


def branch_with(store: ObjectStore, n: int, name: str = "b") -> tuple[Id, Id]:
    """A branch with a commit of its own; that commit and its object."""
    pool = open_pool(store)
    pool.names.create_branch(name, pool.refs().branch("main").commit)
    commit = load(pool, n, name)
    return commit, pool.commits.read(commit).adds[0].id


def remove_branch(store: ObjectStore, name: str = "b") -> None:
    """A branch goes, and so does, long after it was written, what only that branch had."""
    pool = open_pool(store)
    pool.names.drop_branch(name)
    vacuum.collect(pool, now=time.time() + WEEKS)


def require_whole(store: ObjectStore) -> None:
    """Everything that branches and tags refer to can be read."""
    pool = open_pool(store)
    for ref in (*pool.refs().branches(), *pool.refs().tags()):
        read = list(scan(pool, ref.commit))
        assert len(read) == sum(o.count for o in pool.snapshot(ref.commit).objects())
        assert [commit.id for commit in pool.log(ref.commit)][:1] == ([] if ref.commit is None else [ref.commit])


def attempt(act: Callable[[], object]) -> ShoalError | None:
    """What is wrong with doing something; to refuse it is always right here, to break the lake never is."""
    try:
        act()
    except (Conflict, NotFound) as e:
        return e
    return None


def test_a_merge_of_a_branch_that_is_dropped_and_vacuumed_meanwhile_does_not_break_its_target() -> None:
    inner = MemoryStore()
    load(new_lake(inner), 1)
    branch_with(inner, 2)
    race = Meanwhile(inner, "create", "branches", lambda: remove_branch(inner))
    pool = open_pool(race.store)
    attempt(lambda: changes.merge(pool, "b", "main", Note()))
    assert race.is_done
    require_whole(inner)


def test_a_revert_of_a_commit_that_is_vacuumed_meanwhile_does_not_break_its_branch() -> None:
    """The commit deleted an object that only a branch which is now dropped ever had."""
    inner = MemoryStore()
    load(new_lake(inner), 1)
    _, ident = branch_with(inner, 2)
    deletion = changes.delete(open_pool(inner), "b", [ident], Note())
    race = Meanwhile(inner, "create", "branches", lambda: remove_branch(inner))
    pool = open_pool(race.store)
    attempt(lambda: changes.revert(pool, "main", deletion, Note()))
    assert race.is_done
    require_whole(inner)


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_name_for_a_commit_that_was_vacuumed_is_refused_also_by_who_remembers_the_commit(kind: str) -> None:
    store = MemoryStore()
    load(new_lake(store), 1)
    commit, _ = branch_with(store, 2)
    pool = open_pool(store)
    assert pool.resolve(to_text(commit)) == commit
    remove_branch(store)
    make = pool.names.create_branch if kind == "branch" else pool.names.create_tag
    assert isinstance(attempt(lambda: make("back", pool.resolve(to_text(commit)))), NotFound)
    require_whole(store)


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_name_for_a_commit_that_is_vacuumed_meanwhile_is_refused(kind: str) -> None:
    inner = MemoryStore()
    load(new_lake(inner), 1)
    commit, _ = branch_with(inner, 2)
    race = Meanwhile(inner, "create", "branches", lambda: remove_branch(inner))
    pool = open_pool(race.store)
    make = pool.names.create_branch if kind == "branch" else pool.names.create_tag
    attempt(lambda: make("back", pool.resolve(to_text(commit))))
    assert race.is_done
    require_whole(inner)


def test_a_branch_at_a_commit_before_which_history_is_cut_meanwhile_is_refused() -> None:
    inner = MemoryStore()
    first = load(new_lake(inner), 1)
    second = load(open_pool(inner), 2)

    def cut() -> None:
        pool = open_pool(inner)
        vacuum.vacate(pool, second)
        vacuum.collect(pool, now=time.time() + WEEKS)

    race = Meanwhile(inner, "create", "branches", cut)
    pool = open_pool(race.store)
    attempt(lambda: pool.names.create_branch("old", pool.resolve(to_text(first))))
    assert race.is_done
    require_whole(inner)


def test_a_revert_does_not_bring_back_an_object_that_is_purged_meanwhile() -> None:
    inner = MemoryStore()
    commit = load(new_lake(inner), 1)
    ident = open_pool(inner).commits.read(commit).adds[0].id
    deletion = changes.delete(open_pool(inner), "main", [ident], Note())
    race = Meanwhile(inner, "create", "branches", lambda: vacuum.purge(open_pool(inner), [ident]))
    pool = open_pool(race.store)
    attempt(lambda: changes.revert(pool, "main", deletion, Note()))
    assert race.is_done
    require_whole(inner)


def test_a_merge_does_not_bring_in_an_object_that_is_purged_meanwhile() -> None:
    inner = MemoryStore()
    load(new_lake(inner), 1)
    _, ident = branch_with(inner, 2)

    def purge() -> None:
        pool = open_pool(inner)
        changes.delete(pool, "b", [ident], Note())
        vacuum.purge(pool, [ident])

    race = Meanwhile(inner, "create", "branches", purge)
    pool = open_pool(race.store)
    attempt(lambda: changes.merge(pool, "b", "main", Note()))
    assert race.is_done
    require_whole(inner)


def test_who_holds_a_pool_that_somebody_else_dropped_is_told_so_when_loading() -> None:
    store = MemoryStore()
    LocalLake(create(store)).create("p", key="k").load([{"k": 1}])
    pool = LocalLake(open_lake(store)).pool("p")
    assert pool.resolve() is not None
    LocalLake(open_lake(store)).drop("p")
    assert isinstance(attempt(lambda: pool.load([{"k": 2}])), NotFound)


def test_a_load_into_a_pool_that_is_dropped_meanwhile_is_not_acknowledged() -> None:
    inner = MemoryStore()
    load(new_lake(inner), 1)
    race = Meanwhile(inner, "create", "branches", lambda: open_lake(inner).drop_pool("p"))
    pool = LocalLake(open_lake(race.store)).pool("p")
    assert isinstance(attempt(lambda: pool.load([{"k": 2}])), NotFound)
    assert race.is_done


ABOUT_TO_COMMIT: dict[str, Callable[[Pool], object]] = {
    "load": lambda pool: load(pool, 3),
    "compact": lambda pool: rewriting.compact(pool, "main", [o.id for o in tip_objects(pool)], Note()),
    "delete where": lambda pool: rewriting.delete_where(pool, "main", parse_predicate("k == 2"), Note()),
    "session": lambda pool: sessions.commit(pool, stalled(pool, patch_of(written(pool, 3))), Note()),
    "merge": lambda pool: changes.merge(pool, "b", "main", Note()),
    "rebase": lambda pool: changes.rebase(pool, "b", "main"),
}


@pytest.mark.parametrize("act", ABOUT_TO_COMMIT.values(), ids=ABOUT_TO_COMMIT)
def test_who_is_about_to_commit_when_a_vacuum_without_patience_comes_commits_all_or_nothing(
    act: Callable[[Pool], object],
) -> None:
    """What has no commit yet is reached by nothing; a vacuum without a grace period takes it, and the commit itself."""
    inner = MemoryStore()
    pool = new_lake(inner)
    pool.committer.commit(changes.load("main", [*written(pool, 1), *written(pool, 2)], Note()))
    branch_with(inner, 4)
    load(pool, 5)
    race = Meanwhile(inner, "create", "branches", lambda: vacuum.collect(open_pool(inner), 0))
    attempt(lambda: act(open_pool(race.store)))
    assert race.is_done
    require_whole(inner)


def tip_objects(pool: Pool) -> list[DataObject]:
    return list(pool.snapshot(pool.refs().branch("main").commit).objects())


def test_a_vacuum_without_patience_fails_the_transaction_whose_data_it_takes() -> None:
    """The data of a transaction that is not committed yet is reached by nothing, and young."""
    store = MemoryStore()
    pool = LocalLake(create(store)).create("p", key="k")
    pool.load([{"k": 1}])
    with pytest.raises(Conflict), pool.transaction() as transaction:
        transaction.load([{"k": 2}])
        LocalLake(open_lake(store)).pool("p").vacuum(grace=0)
    require_whole(store)


def test_whoever_read_a_checkpoint_before_history_was_cut_reads_on_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of the old checkpoint is still in the cache of a client, its pages are gone."""
    monkeypatch.setattr("shoal.lake.snapshots.CHECKPOINT_EVERY", 4)
    monkeypatch.setattr("shoal.lake.checkpoints.PAGE", 2)
    inner = MemoryStore()
    new_lake(inner)
    reader = open_pool(CachedStore(inner, is_immutable))
    commits = [load(open_pool(inner), n) for n in range(11)]
    reader.snapshot(commits[-1])
    pool = open_pool(inner)
    vacuum.vacate(pool, commits[-1])
    vacuum.collect(pool, now=time.time() + WEEKS)
    assert values(pool) == list(range(11))
    assert [value.data[0] for value in scan(reader, reader.refs().branch("main").commit)] == list(range(11))


def test_a_vacuum_by_who_remembers_an_old_checkpoint_leaves_the_pages_of_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To cut history writes the checkpoint of a commit anew; another client has read the one that was there before."""
    monkeypatch.setattr("shoal.lake.snapshots.CHECKPOINT_EVERY", 8)
    monkeypatch.setattr("shoal.lake.checkpoints.PAGE", 2)
    inner = MemoryStore()
    new_lake(inner)
    commits = [load(open_pool(inner), n) for n in range(8)]
    other = open_pool(CachedStore(inner, is_immutable))
    vacuum.find_garbage(other)
    vacuum.vacate(open_pool(inner), commits[-1])
    vacuum.collect(other, now=time.time() + WEEKS)
    assert values(open_pool(inner)) == list(range(8))
