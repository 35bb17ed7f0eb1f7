"""Transactions from Python."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest

from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.api.transaction import Transaction
from shoal.errors import Conflict, InvalidInput, NotFound


@pytest.fixture
def pool(lake: Lake) -> Pool:
    return lake.create("logs", key="ts")


def values(lake: Lake, program: str = "from logs") -> list[object]:
    return lake.query(program).to_list()


def test_it_is_one_commit_at_the_end(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    with pool.transaction(message="both", author="ada") as tx:
        tx.load([{"ts": 2}])
        tx.delete(where="ts == 1")
        assert tx.query("*").to_list() == [{"ts": 2}]
        assert tx.query("from logs | count()").to_list() == [1]
        assert values(lake) == [{"ts": 1}]
    assert values(lake) == [{"ts": 2}]
    entry = next(iter(pool.log()))
    assert (entry.message, entry.author) == ("both", "ada")
    assert len(list(pool.log())) == 2


def test_an_error_abandons_it(lake: Lake, pool: Pool) -> None:
    with pytest.raises(ZeroDivisionError), pool.transaction() as tx:
        tx.load([{"ts": 2}])
        raise ZeroDivisionError
    assert values(lake) == []
    assert pool.resolve() is None


def test_nothing_staged_makes_no_commit_and_what_has_ended_stays_so(pool: Pool) -> None:
    with pool.transaction() as tx:
        pass
    assert pool.resolve() is None
    with pool.transaction() as tx:
        tx.load([{"ts": 1}])
        commit = tx.commit(message="early")
    assert [c.id for c in pool.log()] == [commit]
    with pytest.raises(InvalidInput, match="has ended"):
        tx.load([{"ts": 2}])
    with pool.transaction() as other:
        other.load([{"ts": 3}])
        other.abandon()
    with pool.transaction() as idle:
        idle.delete(where="ts > 100")
    assert len(list(pool.log())) == 1


def test_conflicts_of_objects_are_found(pool: Pool) -> None:
    pool.load([{"ts": 1}])
    (o,) = pool.objects()
    with pytest.raises(Conflict, match=o.id), pool.transaction() as tx:
        tx.delete([o.id])
        pool.delete([o.id])


def test_serializable_finds_what_was_read_and_changed(pool: Pool) -> None:
    pool.load([{"ts": 1}])
    with pytest.raises(Conflict, match="changed what it read"), pool.transaction(isolation="serializable") as tx:
        total = tx.query("sum(ts)").to_list()
        tx.load([{"ts": 10, "total": total[0]}])
        pool.load([{"ts": 2}])
    with pool.transaction(isolation="serializable") as tx:
        tx.query("from logs | ts < 5 | count()").to_list()
        tx.load([{"ts": 7}])
        pool.load([{"ts": 9}])


def test_the_side_of_a_join_was_read_whichever_engine_joins(
    lake: Lake, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_ENGINE", "duckdb")
    lake.create("others", key="id").load([{"id": 1}])
    pool.load([{"ts": 1}])
    with pytest.raises(Conflict, match="changed what it read"), pool.transaction(isolation="serializable") as tx:
        assert tx.query("from others | join (from logs) on id=ts ts").to_list() == [{"id": 1, "ts": 1}]
        tx.load([{"ts": 10}])
        pool.load([{"ts": 2}])


def test_what_it_deletes_may_be_what_it_loaded(lake: Lake, pool: Pool) -> None:
    with pool.transaction() as tx:
        tx.load([{"ts": 1}, {"ts": 2}])
        tx.delete(where="ts == 1")
    assert values(lake) == [{"ts": 2}]
    with pytest.raises(NotFound), pool.transaction() as tx:
        tx.delete(["0" * 27])


def _stage(tx: Transaction, ts: int) -> bytes:
    tx.load([{"ts": ts}])
    return pickle.dumps(tx)


def test_processes_write_into_one_transaction(lake: Lake, pool: Pool) -> None:
    with pool.transaction() as tx:
        tx.load([{"ts": 0}])
        with multiprocessing.get_context("spawn").Pool(2) as workers:
            copies = [pickle.loads(done) for done in workers.starmap(_stage, [(tx, 1), (tx, 2), (tx, 3)])]
        tx.take_over(*copies)
        assert values(lake) == []
    assert values(lake) == [{"ts": i} for i in range(4)]
    assert len(list(pool.log())) == 1


# ---- serializable: reads outside of the branch


@pytest.fixture
def rates(lake: Lake) -> Pool:
    pool = lake.create("rates", key="id")
    pool.load([{"id": 1, "rate": 2}])
    return pool


CHANGES = {
    "a load": lambda lake: lake.pool("rates").load([{"id": 3, "rate": 5}]),
    "a delete": lambda lake: lake.pool("rates").delete(where="id == 1"),
    "a drop": lambda lake: lake.drop("rates"),
}


@pytest.mark.parametrize("engine", ["interp", "duckdb"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_read_in_another_pool_has_to_stay(
    lake: Lake, pool: Pool, rates: Pool, engine: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_ENGINE", engine)
    with pytest.raises(Conflict, match=r"transaction .*(has changed what it read|is gone)"):
        with pool.transaction(isolation="serializable") as tx:
            (total,) = tx.query("from rates | sum(rate)").to_list()
            tx.load([{"ts": 1, "total": total}])
            CHANGES[change](lake)
    assert values(lake) == []
    with pool.transaction() as loose:
        assert loose.query("from :pools | name == 'logs' | count()").to_list() == [1]
        loose.load([{"ts": 2}])
        lake.create("more")
    assert values(lake) == [{"ts": 2}]


def test_what_is_changed_beside_the_keys_that_were_read_is_no_conflict(lake: Lake, pool: Pool, rates: Pool) -> None:
    with pool.transaction(isolation="serializable") as tx:
        assert tx.query("from rates | id < 2 | yield rate").to_list() == [2]
        tx.load([{"ts": 1}])
        rates.load([{"id": 7, "rate": 0}])
    assert values(lake) == [{"ts": 1}]


def test_branches_of_the_own_pool_are_others(lake: Lake, pool: Pool) -> None:
    pool.load([{"ts": 1}])
    pool.create_branch("side")
    side = pool.branch("side")
    with pytest.raises(Conflict, match="on logs@side has changed what it read"):
        with pool.transaction(isolation="serializable") as tx:
            assert tx.query("from logs@side | count()").to_list() == [1]
            tx.load([{"ts": 5}])
            side.load([{"ts": 2}])
    with pytest.raises(Conflict, match="what it read on logs@side is gone"):
        with pool.transaction(isolation="serializable") as tx:
            tx.query("from logs@side").to_list()
            tx.load([{"ts": 5}])
            pool.drop_branch("side")
    # The commit of `early` is that of the own branch, until something is staged.
    pool.create_branch("early")
    with pytest.raises(Conflict, match="has changed what it read"), pool.transaction(isolation="serializable") as tx:
        tx.query("from logs@early | count()").to_list()
        tx.query("from logs | count()").to_list()
        tx.load([{"ts": 5}])
        pool.load([{"ts": 3}])


def test_tags_and_commits_never_change(lake: Lake, pool: Pool, rates: Pool) -> None:
    rates.create_tag("v1")
    with pool.transaction(isolation="serializable") as tx:
        assert tx.query("from rates@v1 | count()").to_list() == [1]
        assert tx.query(f"from rates@{rates.resolve()} | count()").to_list() == [1]
        tx.load([{"ts": 1}])
        rates.load([{"id": 2, "rate": 9}])
    assert values(lake) == [{"ts": 1}]


@pytest.mark.parametrize(
    "program",
    ["from :pools", "from rate* | count()", "from rates:branches", "from rates@main:objects", "from :branches"],
)
def test_metadata_that_was_read_has_to_stay(lake: Lake, pool: Pool, rates: Pool, program: str) -> None:
    with pytest.raises(Conflict, match=r"metadata of .* that it read has changed"):
        with pool.transaction(isolation="serializable") as tx:
            tx.query(program).to_list()
            tx.load([{"ts": 1}])
            if program in ("from :pools", "from rate* | count()"):
                lake.create("more")
            else:
                rates.load([{"id": 2}])
    with pool.transaction(isolation="serializable") as tx:
        tx.query(program).to_list()
        tx.load([{"ts": 1}])
    assert values(lake) == [{"ts": 1}]


def test_of_two_that_read_what_the_other_writes_the_later_one_conflicts(lake: Lake, pool: Pool, rates: Pool) -> None:
    first, second = pool.begin(isolation="serializable"), rates.begin(isolation="serializable")
    for transaction, other in ((first, "rates"), (second, "logs")):
        transaction.query(f"from {other} | count()").to_list()
        transaction.load([{"ts": 1, "id": 1}])
    first.commit()
    with pytest.raises(Conflict, match="on logs@main has changed what it read"):
        second.commit()


def _read_rates(tx: Transaction) -> bytes:
    tx.query("from rates | count()").to_list()
    tx.load([{"ts": 1}])
    return pickle.dumps(tx)


def test_what_copies_read_counts(lake: Lake, pool: Pool, rates: Pool) -> None:
    tx = pool.begin(isolation="serializable")
    copy = pickle.loads(_read_rates(pickle.loads(pickle.dumps(tx))))
    tx.take_over(copy)
    rates.load([{"id": 2}])
    with pytest.raises(Conflict, match="on rates@main has changed what it read"):
        tx.commit()
