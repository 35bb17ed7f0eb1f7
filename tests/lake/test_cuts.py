"""Cuts: the branches of several pools as they go together, also where a pool is read long after the others."""

from __future__ import annotations

import pytest
from tests.lake.conftest import Load
from tests.lake.staging import commit, load_into, stop_after_one_pool, stop_at_the_decision, writes

from shoal.ids import Id, new
from shoal.lake.cuts import Cut, fixed_cut, read_cut
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import Lake, open_lake
from shoal.lake.pending import DEPENDS
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.lake.settling import Pendings


@pytest.fixture
def three(made: Lake) -> list[Pool]:
    """Pools in the order of their ids, each with another branch."""
    configs = [
        PoolConfig(ident, f"p{i}", parse_sort_key("k")) for i, ident in enumerate(sorted(new() for _ in range(3)))
    ]
    pools = list(map(made.create_pool, configs))
    for each in pools:
        load_into(made, each, "{k:0}")
        each.names.create_branch("dev", each.resolve())
    return pools


def fixed(*pools: Pool) -> Cut:
    return read_cut([(each.config.id, each.journal) for each in pools])


def tip(cut: Cut, pool: Pool, branch: str = "main") -> Id | None:
    return cut.refs(pool.config.id, pool.journal).branch(branch).commit


def seen(cut: Cut, *pools: Pool) -> list[Id | None]:
    return [cut.refs(each.config.id, each.journal).branch("main").commit for each in pools]


def test_a_cut_that_was_read_around_a_transaction_is_read_again(made: Lake, pool: Pool, other: Pool) -> None:
    cut = Cut()
    seen(cut, pool)
    commit(made, writes(pool, "{k:1}"), writes(other, "{k:2}"))
    assert seen(cut, other) != [None]
    assert not cut.is_consistent()
    cut.read_again()
    assert cut.is_consistent()
    assert seen(cut, pool, other) == [pool.resolve(), other.resolve()]


def test_a_cut_looks_again_at_what_was_undecided(
    made: Lake, pool: Pool, other: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = writes(pool, "{k:1}"), writes(other, "{k:2}")
    txn = stop_at_the_decision(made, monkeypatch, *parts)
    cut = Cut()
    assert seen(cut, pool) == [None]
    commit(made, *parts, txn=txn)
    assert seen(cut, other) != [None]
    assert not cut.is_consistent()


def test_dependencies_are_transitive(made: Lake, pool: Pool, other: Pool) -> None:
    third = made.create_pool(PoolConfig(new(), "third", parse_sort_key("k")))
    cut = Cut()
    assert seen(cut, pool) == [None]
    commit(made, writes(pool, "{k:1}"), writes(other, "{k:2}"))
    commit(made, writes(other, "{k:3}"), writes(third, "{k:4}"))
    assert seen(cut, third) != [None]
    assert not cut.is_consistent()


def test_a_pool_that_joins_a_fixed_cut_is_read_as_it_was_then(made: Lake, pool: Pool, other: Pool) -> None:
    third = made.create_pool(PoolConfig(new(), "third", parse_sort_key("k")))
    commit(made, writes(pool, "{k:1}"), writes(other, "{k:2}"))
    cut = read_cut([(pool.config.id, pool.journal)])
    then = [other.resolve(), third.resolve()]
    load_into(made, third, "{k:9}")
    alone = third.resolve()
    commit(made, writes(pool, "{k:3}"), writes(other, "{k:4}"))
    commit(made, writes(other, "{k:5}"), writes(third, "{k:6}"))
    assert seen(cut, other, third) == [then[0], alone]
    assert seen(read_cut([(each.config.id, each.journal) for each in (pool, other, third)]), pool, other, third) == [
        pool.resolve(), other.resolve(), third.resolve(),
    ]  # fmt: skip


def test_pools_without_transactions_depend_on_nothing(made: Lake, pool: Pool, other: Pool, load: Load) -> None:
    load("{k:1}")
    cut = Cut()
    seen(cut, pool)
    load_into(made, other, "{k:2}")
    seen(cut, other)
    assert cut.is_consistent()
    assert DEPENDS not in pool.journal.read().entries


# ---- pools that join a fixed cut


def test_a_pool_that_joins_shows_what_the_cut_depends_on(
    made: Lake, three: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = three
    parts = writes(a, "{k:2}", "dev"), writes(c, "{k:2}")
    pending = stop_after_one_pool(made, monkeypatch, *parts)
    commit(made, writes(a, "{k:1}"), writes(b, "{k:1}"))
    then, before = a.resolve(), a.resolve("dev")
    cut = fixed(b, c)
    commit(open_lake(made.store), *parts, txn=pending)
    assert tip(cut, a) == then
    assert tip(cut, a, "dev") == before


def test_what_is_undecided_in_a_fixed_cut_stays_out_of_it(
    made: Lake, three: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = three
    parts = writes(a, "{k:1}", "dev"), writes(b, "{k:1}", "dev")
    then = a.resolve("dev"), b.resolve("dev")
    pending = stop_at_the_decision(made, monkeypatch, *parts)
    cut = fixed(a)
    commit(open_lake(made.store), *parts, txn=pending)
    assert (tip(cut, a, "dev"), tip(cut, b, "dev")) == then


def test_what_came_of_the_undecided_stays_out_as_well(
    made: Lake, three: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = three
    parts = writes(b, "{k:1}"), writes(c, "{k:1}")
    then = a.resolve(), c.resolve()
    pending = stop_at_the_decision(made, monkeypatch, *parts)
    cut = fixed(b)
    commit(open_lake(made.store), *parts, txn=pending)
    commit(made, writes(a, "{k:2}"), writes(c, "{k:2}"))
    assert tip(cut, a) == then[0]
    assert tip(cut, c) == then[1]


def test_what_the_cut_depends_on_is_not_taken_for_what_came_of_the_undecided(
    made: Lake, three: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = three
    parts = writes(a, "{k:1}", "dev"), writes(b, "{k:1}", "dev")
    pending = stop_at_the_decision(made, monkeypatch, *parts)
    commit(made, writes(a, "{k:2}"), writes(b, "{k:2}"))
    then, before = b.resolve(), b.resolve("dev")
    cut = fixed(a)
    commit(open_lake(made.store), *parts, txn=pending)
    assert (tip(cut, b), tip(cut, b, "dev")) == (then, before)


def test_a_cut_is_the_same_when_it_is_made_again(
    made: Lake, three: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = three
    parts = writes(a, "{k:1}", "dev"), writes(b, "{k:1}", "dev")
    pending = stop_at_the_decision(made, monkeypatch, *parts)
    cut = fixed(a)
    then = tip(cut, a, "dev"), tip(cut, c)
    commit(open_lake(made.store), *parts, txn=pending)
    load_into(made, c, "{k:3}")
    journals = {each.config.id: each.journal for each in (a, c)}
    again = fixed_cut(cut.taken(), journals.get)
    assert (tip(again, a, "dev"), tip(again, c)) == then
    assert again.taken() == cut.taken()
    assert tip(again, b, "dev") == tip(cut, b, "dev")
    assert [each.pool for each in fixed_cut(cut.taken(), lambda ident: None).taken()] == []


# ---- waiting


def test_a_cut_waits_for_nothing_on_branches_that_are_only_read(
    made: Lake, three: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = three
    stop_at_the_decision(made, monkeypatch, writes(a, "{k:1}", "dev"), writes(b, "{k:1}", "dev"))

    def wait(self: Pendings, pending: object, seconds: float) -> None:
        raise AssertionError("this waits for another branch")

    monkeypatch.setattr(Pendings, "wait", wait)
    cut = read_cut([(a.config.id, a.journal)], [(a.config.id, "main")])
    assert tip(cut, a) == a.resolve()


def test_a_cut_waits_for_the_branches_that_a_transaction_changes(
    made: Lake, three: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = three
    parts = writes(a, "{k:1}"), writes(b, "{k:1}")
    pending = stop_at_the_decision(made, monkeypatch, *parts, patience=0.05)
    cut = read_cut([(a.config.id, a.journal)], [(a.config.id, "main")])
    decision = made.decisions.find(pending)
    assert decision is not None
    assert not decision.is_committed
    assert cut.is_decided


def test_what_was_decided_is_watched_no_longer(made: Lake, three: list[Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = three
    stop_at_the_decision(made, monkeypatch, writes(a, "{k:1}"), writes(b, "{k:1}"), patience=0.05)
    load_into(made, a, "{k:2}")
    settles = a.journal._settles
    assert isinstance(settles, Pendings)
    assert settles._watched == {}
