"""Vacuum, vacate, purge: what goes, what stays, and what a reader is told."""

from __future__ import annotations

import time

import pytest
from tests.lake.conftest import Load, Read

from shoal.errors import Conflict, CorruptData, InvalidInput, NotFound
from shoal.ids import Id, new, to_text
from shoal.lake import changes, lineage, rewriting, sessions, vacuum
from shoal.lake.actions import patch_of
from shoal.lake.commits import Note
from shoal.lake.objects import Form, data_key
from shoal.lake.pools import Pool, open_pool
from shoal.lake.scans import scan
from shoal.model.text import format_value
from shoal.planner.predicates import parse_predicate
from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.testing.clocks import DAY, MINUTE, Machine, World, cloud
from shoal.testing.queries import parse_values

ME = Note("me")


def objects(pool: Pool, commit: Id | str = "main") -> list[Id]:
    at = pool.resolve(commit) if isinstance(commit, str) else commit
    return [o.id for o in pool.snapshot(at).objects()]


def orphan(pool: Pool) -> Id:
    writer = pool.writer()
    for value in parse_values("{k:99}"):
        writer.write(value)
    return writer.close()[0].id


def test_only_what_nothing_reaches_goes(pool: Pool, load: Load, read: Read, store: MemoryStore) -> None:
    first = load("{k:1}")
    changes.delete(pool, "main", objects(pool), ME)
    load("{k:2}")
    pool.names.create_branch("side", first)
    load("{k:3}", "side")
    pool.names.create_tag("v1", pool.resolve("side"))
    pool.names.drop_branch("side")
    lost = orphan(pool)
    garbage = vacuum.find_garbage(pool, 0)
    assert [listed.key for listed in garbage.data] == [data_key(pool.prefix, lost, Form.COLUMNS)]
    assert vacuum.collect(pool, 0) == garbage
    assert (read(first), read(), read("v1")) == (["{k:1}"], ["{k:2}"], ["{k:1}", "{k:3}"])
    assert vacuum.find_garbage(pool, 0).size == 0


def test_what_is_young_stays(pool: Pool, load: Load) -> None:
    load("{k:1}")
    orphan(pool)
    assert vacuum.find_garbage(pool).data == ()
    assert len(vacuum.find_garbage(pool, now=time.time() + 8 * 24 * 3600).data) == 1
    with pytest.raises(InvalidInput):
        vacuum.find_garbage(pool, -1)


def test_a_dropped_branch_is_garbage(pool: Pool, load: Load) -> None:
    load("{k:1}")
    pool.names.create_branch("side", pool.resolve())
    load("{k:2}", "side")
    pool.names.drop_branch("side")
    assert len(vacuum.find_garbage(pool, 0).data) == 1


def test_what_was_merged_in_stays(pool: Pool, load: Load, read: Read, store: MemoryStore) -> None:
    load("{k:1}")
    pool.names.create_branch("side", pool.resolve())
    first, second = load("{k:2}", "side"), load("{k:3}", "side")
    changes.merge(pool, "side", "main", ME)
    pool.names.drop_branch("side")
    vacuum.collect(pool, 0)
    fresh = open_pool(store, pool.config)
    assert [fresh.commits.lookup(ident) is not None for ident in (first, second)] == [True, True]
    assert read(first, fresh) == ["{k:1}", "{k:2}"]


def test_a_commit_of_data_that_was_vacuumed_is_refused(pool: Pool) -> None:
    writer = pool.writer()
    for value in parse_values("{k:1}"):
        writer.write(value)
    session = sessions.stage(sessions.begin(pool, "main"), patch_of(writer.close()))
    vacuum.collect(pool, 0)
    with pytest.raises(Conflict, match="a vacuum has removed"):
        sessions.commit(pool, session, ME)
    assert pool.resolve() is None


def test_a_repeated_operation_is_recognised_after_a_vacuum(pool: Pool, load: Load, read: Read) -> None:
    op = new()
    landed = load("{k:1}", op=op)
    vacuum.collect(pool, 0)
    assert load("{k:1}", op=op) == landed
    assert read() == ["{k:1}"]


def test_an_operation_that_lost_its_first_race_is_recognised_after_a_vacuum(
    pool: Pool, load: Load, read: Read, store: MemoryStore
) -> None:
    """The commit of its first attempt, which says where to look, is in no branch."""
    op, rivals = new(), ["{k:0}"]

    def choose(number: int, name: str, key: str) -> None:
        if name == "create" and "/branches/" in key and rivals:
            load(rivals.pop())

    slow = open_pool(FaultyStore(store, choose), pool.config)
    landed = load("{k:1}", into=slow, op=op)
    assert landed != op
    vacuum.collect(open_pool(store, pool.config), 0)
    try:
        assert load("{k:1}", into=open_pool(store, pool.config), op=op) == landed
    except Conflict as e:
        pytest.fail(f"the vacuum took the commit of the first attempt: {e}")
    assert read() == ["{k:0}", "{k:1}"]


def dropped_tip(pool: Pool, load: Load) -> Id:
    """A commit that no branch reaches any more."""
    load("{k:1}")
    pool.names.create_branch("side", pool.resolve())
    tip = load("{k:2}", "side")
    pool.names.drop_branch("side")
    return tip


def test_what_is_named_before_the_announcement_stays(pool: Pool, load: Load, read: Read, store: MemoryStore) -> None:
    tip = dropped_tip(pool, load)
    names = ["again"]

    def choose(number: int, name: str, key: str) -> None:
        if name == "create" and "/branches/" in key and names:
            pool.names.create_branch(names.pop(), tip)

    vacuum.collect(open_pool(FaultyStore(store, choose), pool.config), 0)
    fresh = open_pool(store, pool.config)
    assert [fresh.commits.lookup(tip) is not None, len(objects(fresh, "main"))] == [True, 1]
    assert read("again", fresh) == ["{k:1}", "{k:2}"]


def test_what_a_vacuum_has_announced_is_not_named_although_it_is_still_there(
    pool: Pool, load: Load, store: MemoryStore
) -> None:
    tip = dropped_tip(pool, load)
    refused: list[str] = []

    def choose(number: int, name: str, key: str) -> None:
        if name == "delete" and not refused:
            assert pool.commits.lookup(tip) is not None
            with pytest.raises(NotFound, match="a vacuum has taken it"):
                pool.names.create_branch("again", tip)
            refused.append("again")

    vacuum.collect(open_pool(FaultyStore(store, choose), pool.config), 0)
    assert refused == ["again"]
    assert [ref.name for ref in pool.refs().branches()] == ["main"]


def test_vacate_lets_history_begin_later(pool: Pool, load: Load, read: Read, store: MemoryStore) -> None:
    first = load("{k:1}")
    rest = [load(f"{{k:{i}}}") for i in range(2, 6)]
    rewriting.compact(pool, "main", objects(pool), ME)
    after = load("{k:6}")
    everything = read()
    vacuum.vacate(pool, after)
    vacuum.collect(pool, 0)
    fresh = open_pool(store, pool.config)
    assert read("main", fresh) == everything
    assert [c.id for c in fresh.log(fresh.resolve())] == [after]
    for gone in (first, *rest):
        with pytest.raises(NotFound):
            fresh.resolve(to_text(gone))
    assert len(list(store.list(f"{pool.prefix}/data/"))) == 2
    last = load("{k:7}", into=fresh)
    assert read(last, open_pool(store, pool.config)) == [*everything, "{k:7}"]
    changes.revert(fresh, "main", last, ME)
    assert read("main", fresh) == everything


def test_vacate_refuses_to_cut_off_a_branch_or_a_tag(pool: Pool, load: Load) -> None:
    first = load("{k:1}")
    pool.names.create_tag("v1", first)
    second = load("{k:2}")
    with pytest.raises(Conflict, match='tag "v1"'):
        vacuum.vacate(pool, second)
    pool.names.drop_tag("v1")
    vacuum.vacate(pool, second)
    with pytest.raises(InvalidInput, match="later commit"):
        vacuum.vacate(pool, first)


def test_a_scan_goes_on_without_what_was_purged_and_says_so(pool: Pool, load: Load) -> None:
    first = load("{k:1} {k:2}")
    load("{k:3}")
    (o,) = objects(pool, first)
    with pytest.raises(Conflict, match='still in branch "main"'):
        vacuum.purge(pool, [o])
    changes.delete(pool, "main", [o], ME)
    assert vacuum.purge(pool, [first]) == [o]
    warnings: list[str] = []
    assert [format_value(v) for v in scan(pool, first, warn=warnings.append)] == []
    assert warnings == [f"logs: data object {to_text(o)} (2 records) was purged and is left out"]
    with pytest.raises(Conflict, match="purged"):
        changes.revert(pool, "main", next(iter(pool.log(pool.resolve()))).id, ME)


def test_what_was_compacted_and_purged_is_still_traced(
    pool: Pool, load: Load, read: Read, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "MOST_INSIDE", 0)
    first = load("{k:1} {k:2} {k:3} {k:4}")
    load("{k:5} {k:6}")
    pool.names.create_branch("side", pool.resolve())
    changes.delete(pool, "side", objects(pool, first), ME)
    rewriting.compact(pool, "main", objects(pool), ME)
    (compacted,) = objects(pool)
    rewriting.delete_where(pool, "main", parse_predicate("k > 2"), ME)
    assert compacted not in objects(pool)
    vacuum.purge(pool, [compacted])
    vacuum.collect(pool, 0)
    lineage.forget()
    fresh = open_pool(store, pool.config)
    changes.merge(fresh, "side", "main", ME)
    assert read("main", fresh) == []


def test_data_that_is_gone_and_was_not_purged_is_an_error(pool: Pool, load: Load, store: MemoryStore) -> None:
    load("{k:1}")
    (o,) = objects(pool)
    store.delete(data_key(pool.prefix, o, Form.COLUMNS))
    with pytest.raises(CorruptData, match=to_text(o)):
        list(scan(pool, pool.resolve()))


def test_purge_of_something_unknown_is_not_found(pool: Pool) -> None:
    with pytest.raises(NotFound, match="no data object or commit"):
        vacuum.purge(pool, [new()])


# ---- clocks


@pytest.mark.parametrize("ahead", [30 * DAY, -30 * DAY])
def test_the_grace_period_is_counted_by_the_clock_of_the_store(machine: Machine, ahead: int) -> None:
    world = World(machine, cloud(machine))
    world.data(world.pool())
    machine.passed += 8 * DAY
    world.data(world.pool())
    machine.passed += DAY
    machine.ahead = ahead
    assert len(vacuum.collect(world.pool()).data) == 1
    assert len(vacuum.collect(world.pool(), 0).data) == 1


def test_what_is_young_stays_in_a_store_that_does_not_say_the_time(machine: Machine) -> None:
    store = FaultyStore(cloud(machine), lambda number, name, key: Fault.ERROR if name == "modified" else None)
    world = World(machine, store)
    world.data(world.pool())
    machine.passed += DAY
    world.data(world.pool())
    machine.ahead = 30 * DAY
    assert vacuum.collect(world.pool()).data == ()
    assert len(vacuum.collect(world.pool(), 3600.0).data) == 1


@pytest.mark.parametrize("ahead", [30 * DAY, 0, -30 * DAY])
def test_data_that_was_vacuumed_is_not_committed_whatever_the_clock_of_its_writer(machine: Machine, ahead: int) -> None:
    world = World(machine, cloud(machine))
    machine.ahead = ahead
    pool = world.pool()
    pool.refs()
    begun, objects = pool.journal.known.position, world.data(pool)
    machine.passed += 2 * MINUTE
    machine.ahead = 0
    assert len(vacuum.collect(world.pool(), 60.0).data) == 1
    machine.ahead = ahead
    for known in (begun, None):
        with pytest.raises(Conflict, match="a vacuum has removed this data"):
            pool.committer.commit(changes.load("main", objects, ME, begun=known))


def test_data_that_was_written_after_a_vacuum_is_committed_without_a_request_more(machine: Machine) -> None:
    counting = FaultyStore(cloud(machine), lambda number, name, key: None)
    world = World(machine, counting)
    world.data(world.pool())
    machine.passed += MINUTE
    vacuum.collect(world.pool(), 0)
    pool = world.pool()
    pool.refs()
    begun, objects = pool.journal.known.position, world.data(pool)
    counting.calls.clear()
    pool.committer.commit(changes.load("main", objects, ME, begun=begun))
    assert not [key for name, key in counting.calls if name in ("modified", "list")]
