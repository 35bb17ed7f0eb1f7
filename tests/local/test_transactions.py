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
