"""Loads that expect a commit: they land only if the branch has not changed since, maintenance aside."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shoal.api.branch import NO_COMMIT
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import Conflict, InvalidInput
from shoal.formats.columns.batches import batch_of
from shoal.ids import new, to_text
from shoal.model.values import int64, record


@pytest.fixture
def pool(lake: Lake) -> Pool:
    return lake.create("p", key="k")


def numbers(pool: Pool) -> list[int]:
    return [value.data[0] for value in pool.query("sort k")]


def test_a_load_lands_on_the_commit_that_it_expects(pool: Pool) -> None:
    first = pool.load([{"k": 1}], expect=NO_COMMIT)
    pool.load([{"k": 2}], expect=first)
    assert numbers(pool) == [1, 2]


def test_a_branch_that_has_changed_refuses_the_load(pool: Pool) -> None:
    first = pool.load([{"k": 1}])
    second = pool.load([{"k": 2}])
    with pytest.raises(Conflict, match=f"has changed since commit {first}: commit {second}"):
        pool.load([{"k": 3}], expect=first)
    with pytest.raises(Conflict, match="has changed since it was empty"):
        pool.load([{"k": 3}], expect=NO_COMMIT)
    with pytest.raises(InvalidInput, match="invalid id"):
        pool.load([{"k": 3}], expect="yesterday")
    assert numbers(pool) == [1, 2]


def test_compactions_are_no_changes(pool: Pool) -> None:
    pool.load([{"k": 1}])
    second = pool.load([{"k": 2}])
    pool.compact([o.id for o in pool.objects()])
    pool.load([{"k": 3}], expect=second)
    assert numbers(pool) == [1, 2, 3]


def test_a_deletion_is_a_change(pool: Pool) -> None:
    first = pool.load([{"k": 1}, {"k": 2}])
    pool.delete(where="k == 1")
    with pytest.raises(Conflict):
        pool.load([{"k": 3}], expect=first)


def test_a_branch_that_was_rebased_away_refuses_the_load(pool: Pool) -> None:
    pool.load([{"k": 1}])
    dev = pool.create_branch("dev")
    own = dev.load([{"k": 2}])
    pool.load([{"k": 3}])
    dev.rebase("main")
    with pytest.raises(Conflict):
        dev.load([{"k": 4}], expect=own)


def test_a_repeated_load_is_found_though_the_branch_has_moved_on(pool: Pool) -> None:
    first, op = pool.load([{"k": 1}]), to_text(new())
    second = pool.load([{"k": 2}], expect=first, op=op)
    pool.load([{"k": 3}])
    assert pool.load([{"k": 2}], expect=first, op=op) == second
    assert numbers(pool) == [1, 2, 3]


def test_values_in_columns_are_loaded(pool: Pool) -> None:
    pool.load([batch_of([record([("k", int64(k))]) for k in range(3)])], expect=NO_COMMIT)
    assert numbers(pool) == [0, 1, 2]


def test_one_of_several_writers_lands_at_a_time(pool: Pool) -> None:
    """Each adds the next number as often as it takes: none is lost, none is there twice."""
    lost = threading.Event()

    def count_up(times: int) -> None:
        while times:
            tip = pool.resolve()
            following = len(numbers(pool)) if tip else 0
            try:
                if pool.resolve() == tip:
                    pool.load([{"k": following}], expect=tip or NO_COMMIT)
                    times -= 1
            except Conflict:
                lost.set()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count_up, [5] * 4))
    assert numbers(pool) == list(range(20))
    assert lost.is_set()
