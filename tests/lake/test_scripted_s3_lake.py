"""A lake behind HTTP: on a server that fails on command, and on the S3 server of moto (F1-F6).

Each fault strikes each request of a load, one at a time. What counts is what lies on the server afterwards: the
entries of the journal by their operation, with no gap between them, and the values that a new client reads.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from secrets import token_hex

import pytest

from shoal.errors import OutcomeUnknown, ShoalError, StorageFailure, Unsupported
from shoal.ids import Id, new, to_text
from shoal.lake import lake
from shoal.lake.claims import Patience
from shoal.lake.pools import Pool
from shoal.local.lake import LocalLake, stored
from shoal.storage.cloud import CloudStore, Timeouts
from shoal.storage.memory import MemoryStore
from shoal.testing.lake_checks import World, check_chain, check_journal, inspect, show, values_at
from shoal.testing.lake_scenes import (
    THE_OPERATION,
    Facts,
    Stage,
    in_miniature,
    load,
    number,
    pond,
    small_pool,
    with_patience,
)
from shoal.testing.moto_s3 import running_moto
from shoal.testing.scripted_s3 import CALLS, Call, Received, ScriptedS3, ServerFault
from shoal.testing.tiers import IS_LONG

HASTY = Timeouts(silence=0.3, deadline=1.0, first_pause=0.005, longest_pause=0.02)
PATIENT = Timeouts(silence=10, deadline=30, first_pause=0.01, longest_pause=0.05)
URI = "s3://bucket/lake"
WRITES: tuple[Call, ...] = ("CREATE", "PUT")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The journal does not wait; the store does, for milliseconds."""
    return in_miniature(monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        server.delay = 0.0
        yield server


def objects_of(server: ScriptedS3) -> MemoryStore:
    """The lake that lies on a server, without the server."""
    store = MemoryStore()
    for name, data in server.objects.items():
        store.put(name.removeprefix("lake/"), data)
    return store


@dataclass(frozen=True, slots=True)
class Scenery:
    """A lake on a server, with a load that is about to be done."""

    server: ScriptedS3
    store: CloudStore
    facts: Facts
    base: dict[str, bytes]
    before: World
    after: World
    asked: tuple[Received, ...]

    def mend(self) -> None:
        """Nothing goes wrong any more."""
        for kind in CALLS:
            self.server.script(kind, [])

    def begin(self, fault: ServerFault | None = None, call: Call = "GET", place: int = 0) -> None:
        """All as it was, and what is to go wrong: the request of a kind at this place."""
        self.server.land_late()
        self.server.objects.clear()
        self.server.objects.update(self.base)
        self.server.log.clear()
        self.mend()
        if fault is not None:
            self.server.script(call, [*[ServerFault.SLOW] * place, fault])

    def load(self) -> Id:
        """The load, by a new client. It has an id, so that it can be repeated."""
        pool = lake.open_lake(self.store).pool(to_text(self.facts.pool))
        return load(pool, (70, 71), THE_OPERATION, op=self.facts.op)

    def creates_before_the_slot(self) -> int:
        """How many creates the load makes before the one that claims its slot."""
        creates = [asked.key for asked in self.asked if asked.call == "CREATE"]
        return next(place for place, key in enumerate(creates) if "/branches/" in key)

    def entries(self) -> int:
        """How many entries of the journal the load has made."""
        prefix = f"{to_text(self.facts.pool)}/branches"
        found = check_journal(objects_of(self.server), prefix)
        return sum(entry.op == self.facts.op for entry in found)

    def world(self) -> World:
        """What a new client finds."""
        return inspect(objects_of(self.server), self.facts)


@pytest.fixture
def scenery(server: ScriptedS3, stage: Stage) -> Scenery:
    store = CloudStore(URI, HASTY)
    facts = pond(store)
    base = dict(server.objects)
    made = Scenery(server, store, facts, base, inspect(objects_of(server), facts), World(None, {}, 0), ())
    made.begin()
    made.load()
    return Scenery(server, store, facts, base, made.before, made.world(), tuple(server.log))


def attempt(act: Callable[[], Id]) -> Id | ShoalError:
    try:
        return act()
    except ShoalError as e:
        return e


def settled(act: Callable[[], Id]) -> Id:
    """What comes of an operation that is repeated as long as its outcome is unknown: connections may hang, too."""
    for _ in range(3):
        outcome = attempt(act)
        if not isinstance(outcome, ShoalError):
            return outcome
        assert isinstance(outcome, OutcomeUnknown), repr(outcome)
    raise AssertionError(outcome)


@pytest.mark.parametrize("fault", ServerFault)
def test_each_fault_of_each_request_leaves_a_load_done_once_or_not_at_all(fault: ServerFault, scenery: Scenery) -> None:
    places: Counter[Call] = Counter()
    results: list[str] = []
    for asked in scenery.asked:
        place = places[asked.call]
        places[asked.call] += 1
        for lands_first in (True, False) if fault is ServerFault.LATE else (True,):
            scenery.begin(fault, asked.call, place)
            outcome = attempt(scenery.load)
            assert any(a.fault is fault for a in scenery.server.log), "the fault did not strike"
            where = f"{fault.value} at {asked.call} {asked.key}: {outcome!r}"
            if lands_first:
                scenery.server.land_late()
            check(scenery, outcome, where)
            results.append(type(outcome).__name__)
            again = settled(scenery.load)
            assert isinstance(outcome, ShoalError) or again == outcome, where
            scenery.server.land_late()
            assert scenery.entries() == 1, where
            assert scenery.world() == scenery.after, where
    assert places["CREATE"] >= 2
    assert places["PUT"] >= 1
    assert places["GET"] >= 5
    print(fault.value, Counter(results))


def check(scenery: Scenery, outcome: Id | ShoalError, where: str) -> None:
    """What was told is what lies on the server."""
    entries, world = scenery.entries(), scenery.world()
    assert (entries, world == scenery.after, world == scenery.before) in ((1, True, False), (0, False, True)), where
    if isinstance(outcome, StorageFailure):
        assert entries == 0, f"{where}, and it was done"
    elif isinstance(outcome, OutcomeUnknown):
        assert to_text(scenery.facts.op) in str(outcome)
    else:
        assert isinstance(outcome, bytes), where
        assert entries == 1, f"{where}, and it was not done"
        branch = world.branches()[scenery.facts.pool, "main"]
        assert branch.chain.count(outcome) == 1, where


def test_a_slot_that_is_refused_for_ever_is_given_up_and_nothing_is_there(scenery: Scenery) -> None:
    """F3: a 409, or a 412 although the slot reads absent, is tried again with the same bytes, but not for ever."""
    for fault in (ServerFault.CONFLICT, ServerFault.PHANTOM):
        scenery.begin()
        let_through = [ServerFault.SLOW] * scenery.creates_before_the_slot()  # the commit itself, for one
        scenery.server.script("CREATE", [*let_through, *[fault] * 1000])
        outcome = attempt(scenery.load)
        assert isinstance(outcome, OutcomeUnknown)
        assert to_text(scenery.facts.op) in str(outcome)
        refused = [asked.key for asked in scenery.server.log if asked.fault is fault]
        assert len(set(refused)) == 1
        assert 2 <= len(refused) <= 100
        assert scenery.entries() == 0
        assert scenery.world() == scenery.before
        scenery.server.script("CREATE", [])
        scenery.load()
        assert scenery.entries() == 1
        assert scenery.world() == scenery.after


@pytest.mark.parametrize("lands", [ServerFault.LAND_503, ServerFault.LAND_RESET, ServerFault.LAND_HANG])
def test_an_entry_that_cannot_be_read_back_is_unknown_and_found_by_whoever_repeats(
    lands: ServerFault, scenery: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5: never "conflict", never "failed"."""
    with_patience(monkeypatch, Patience(deadline=-1.0, refusals=0))
    gets = sum(asked.call == "GET" for asked in scenery.asked)
    scenery.begin(lands, "CREATE", scenery.creates_before_the_slot())
    scenery.server.script("GET", [*[ServerFault.SLOW] * gets, *[ServerFault.UNAVAILABLE] * 10_000])
    outcome = attempt(scenery.load)
    assert isinstance(outcome, OutcomeUnknown)
    assert to_text(scenery.facts.op) in str(outcome)
    scenery.server.script("GET", [])
    assert scenery.entries() == 1
    assert scenery.world() == scenery.after
    landed = scenery.world().branches()[scenery.facts.pool, "main"].chain[0]
    assert scenery.load() == landed
    assert scenery.entries() == 1


@pytest.mark.parametrize("fault", [ServerFault.UNAVAILABLE, ServerFault.THROTTLED, ServerFault.CLOSE])
def test_a_store_that_fails_for_long_leaves_no_part_of_a_load(
    fault: ServerFault, scenery: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F6: from any request on nothing works any more, until the client gives up."""
    with_patience(monkeypatch, Patience(deadline=0.0, refusals=3))
    places: Counter[Call] = Counter()
    for position, asked in enumerate(scenery.asked):
        scenery.begin()
        for kind in ("CREATE", "PUT", "GET", "HEAD"):
            scenery.server.script(kind, [*[ServerFault.SLOW] * places[kind], *[fault] * 10_000])
        places[asked.call] += 1
        if not IS_LONG and asked.call not in WRITES and position % 6:
            continue
        outcome = attempt(scenery.load)
        assert isinstance(outcome, (StorageFailure, OutcomeUnknown)), f"{asked}: {outcome!r}"
        scenery.mend()
        check(scenery, outcome, f"{fault.value} from {asked.call} {asked.key} on")
        assert scenery.entries() == 0
        scenery.load()
        assert scenery.entries() == 1
        assert scenery.world() == scenery.after


def test_a_lost_race_is_met_by_the_next_slot(scenery: Scenery) -> None:
    """F2: two clients that have read the same state both commit, and both commits are there."""
    scenery.begin()
    one, two = (lake.open_lake(scenery.store).pool(to_text(scenery.facts.pool)) for _ in range(2))
    positions = [pool.journal.read().position for pool in (one, two)]
    assert positions[0] == positions[1]
    first, second = load(one, (72,), "first"), load(two, (73,), "second")
    creates = [asked.key for asked in scenery.server.log if asked.call == "CREATE" and "/branches/" in asked.key]
    assert len(creates) >= 2
    found = check_journal(objects_of(scenery.server), f"{to_text(scenery.facts.pool)}/branches")
    assert len(found) == positions[0] + 2
    pool = lake.open_lake(scenery.store).pool(to_text(scenery.facts.pool))
    assert check_chain(pool, second)[:2] == [second, first]


# ---- stores that do not keep their word


def test_a_store_that_ignores_conditions_is_refused_at_init(server: ScriptedS3) -> None:
    server.ignores_conditions = True
    with pytest.raises(Unsupported, match=r"^s3://bucket/lake: the store ignores put-if-missing"):
        lake.create(CloudStore(URI, PATIENT))
    assert server.objects == {}


def test_a_store_that_ignores_conditions_is_refused_at_the_first_write_and_can_be_read(server: ScriptedS3) -> None:
    """A lake that was copied there, say."""
    made = lake.create(CloudStore(URI, PATIENT)).create_pool(small_pool("logs"))
    commit = load(made, (1, 2), "one")
    server.ignores_conditions = True
    before = dict(server.objects)
    opened = LocalLake(lake.open_lake(CloudStore(URI, PATIENT)))
    pool = opened.pool("logs")
    assert len(values_at(stored(pool), commit)) == 2
    ident = to_text(commit)
    writes: list[Callable[[], object]] = [
        lambda: pool.load([{"k": 3}]),
        lambda: pool.delete(where="k == 1"),
        lambda: pool.revert(ident),
        lambda: pool.create_branch("b"),
        lambda: pool.create_tag("t"),
        lambda: pool.drop_branch("main"),
        lambda: pool.merge("b"),
        lambda: pool.branch("b").rebase("main"),
        lambda: pool.compact([ident]),
        lambda: pool.vacuum(),
        lambda: pool.vacate(ident),
        lambda: pool.purge([ident]),
        lambda: pool.transaction(),
        lambda: opened.create("other"),
        lambda: opened.rename("logs", "other"),
        lambda: opened.drop("logs"),
    ]
    for write in writes:
        with pytest.raises(Unsupported, match=r"^s3://bucket/lake: the store ignores put-if-missing"):
            write()
    assert server.objects == before


# ---- the server of moto


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running_moto() as url:
        yield url


@pytest.fixture
def moto(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place of its own in the bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return f"s3://bucket/{token_hex(8)}"


def test_a_lake_on_a_real_server_is_the_lake_in_memory(moto: str, stage: Stage) -> None:
    worlds: list[World] = []
    for store in (MemoryStore(), CloudStore(moto, PATIENT)):
        stage.rewind()
        worlds.append(inspect(store, pond(store)))
    assert worlds[0] == worlds[1]
    assert worlds[0].entries == worlds[1].entries == 16


def test_eight_threads_commit_at_once_and_none_is_lost_and_none_is_doubled(moto: str) -> None:
    threads, each = 8, 100 if IS_LONG else 4
    made = lake.create(CloudStore(moto, PATIENT)).create_pool(small_pool("logs"))
    ident = to_text(made.config.id)

    def work(thread: int) -> list[tuple[Id, Id]]:
        pool = lake.open_lake(CloudStore(moto, PATIENT)).pool(ident)
        return [_commit(pool, 1000 * thread + i) for i in range(each)]

    with ThreadPoolExecutor(threads) as executor:
        done = [pair for pairs in executor.map(work, range(threads)) for pair in pairs]
    store = CloudStore(moto, PATIENT)
    entries = check_journal(store, f"{ident}/branches")
    assert len(entries) == 1 + threads * each
    assert Counter(entry.op for entry in entries[1:]) == Counter(op for op, _ in done)
    pool = lake.open_lake(store).pool(ident)
    tip = pool.resolve("main")
    assert sorted(check_chain(pool, tip)) == sorted(commit for _, commit in done)
    keys = [1000 * thread + i for thread in range(threads) for i in range(each)]
    assert values_at(pool, tip) == tuple(show(number(k)) for k in sorted(keys))


def _commit(pool: Pool, k: int) -> tuple[Id, Id]:
    op = new()
    return op, load(pool, (k,), f"{k}", op=op)
