"""Every change of a lake can be repeated by its id: it is done once, and the answer is the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.api.pool import Pool as PoolHandle
from shoal.errors import InvalidInput, NotFound, OutcomeUnknown
from shoal.ids import new, to_text
from shoal.lake.lake import Lake
from shoal.local.lake import LocalLake, create_local

Act = Callable[[LocalLake, PoolHandle, str], object]


@pytest.fixture
def lake(tmp_path: Path) -> LocalLake:
    made = create_local(str(tmp_path / "lake"))
    pool = made.create("logs", key="k")
    pool.load([{"k": 1}, {"k": 2}], message="one")
    pool.load([{"k": 3}], message="two")
    pool.create_branch("side")
    pool.create_branch("spare")
    pool.create_tag("v1")
    pool.branch("side").load([{"k": 4}])
    other = made.create("divided", key="k", partition="n")
    other.load([{"k": 1, "n": 1}, {"k": 2, "n": 2}])
    other.create_branch("side")
    return made


def divided(lake: LocalLake) -> PoolHandle:
    """A pool with partitions."""
    return lake.pool("divided")


def newest(pool: PoolHandle) -> str:
    """The data object that the last commit to main added."""
    commit = pool.resolve("main")
    assert commit is not None
    return commit


def attachable(lake: LocalLake) -> str:
    """A Parquet file beside the lake."""
    path = Path(lake.uri.removeprefix("file://")).parent / "x.parquet"
    if not path.exists():
        pq.write_table(pa.table({"k": [7, 5]}), path)
    return str(path)


def attached(lake: LocalLake, pool: PoolHandle) -> str:
    """A Parquet file that is attached, unless it was before."""
    path = Path(attachable(lake))
    if not path.with_suffix(".done").exists():
        path.with_suffix(".done").touch()
        pool.attach(str(path))
    return str(path)


ACTS: dict[str, Act] = {
    "load": lambda lake, pool, op: pool.load([{"k": 9}], op=op),
    "delete": lambda lake, pool, op: pool.delete([newest(pool)], op=op),
    "delete where": lambda lake, pool, op: pool.delete(where="k==1", op=op),
    "attach": lambda lake, pool, op: pool.attach(attachable(lake), op=op),
    "detach": lambda lake, pool, op: pool.detach(attached(lake, pool), op=op),
    "delete partition": lambda lake, pool, op: divided(lake).delete(partition="1", op=op),
    "rewrite": lambda lake, pool, op: divided(lake).rewrite("1", "put x := 1", op=op),
    "compact": lambda lake, pool, op: pool.compact([o.id for o in pool.objects()], op=op),
    "revert": lambda lake, pool, op: pool.revert("v1", op=op),
    "cherry-pick": lambda lake, pool, op: pool.cherry_pick("side", op=op),
    "merge": lambda lake, pool, op: pool.merge("side", op=op),
    "rebase": lambda lake, pool, op: pool.branch("side").rebase("main", op=op),
    "create branch": lambda lake, pool, op: pool.create_branch("more", "spare", op=op),
    "drop branch": lambda lake, pool, op: pool.drop_branch("spare", op=op),
    "create tag": lambda lake, pool, op: pool.create_tag("v2", "spare", op=op),
    "drop tag": lambda lake, pool, op: pool.drop_tag("v1", op=op),
    "create": lambda lake, pool, op: lake.create("second", op=op).info(),
    "alter": lambda lake, pool, op: pool.alter(primary="k", op=op),
    "rename": lambda lake, pool, op: lake.rename("logs", "renamed", op=op),
    "drop": lambda lake, pool, op: lake.drop("logs", op=op),
}


def looks(lake: LocalLake) -> object:
    """The lake, as far as a repeat might change it."""
    pools = [lake.pool(info.id) for info in lake.pools()]
    return [
        (pool.info(), pool.branches(), pool.tags(), [(c.id, c.message) for c in pool.log() if pool.resolve()])
        for pool in pools
    ]


@pytest.mark.parametrize("name", ACTS)
def test_a_change_that_is_repeated_by_its_id_is_done_once_with_the_same_answer(lake: LocalLake, name: str) -> None:
    act, op, pool = ACTS[name], to_text(new()), lake.pool("logs")
    before = looks(lake)
    told = act(lake, pool, op)
    after = looks(lake)
    assert after != before
    assert act(lake, pool, op) == told
    again = LocalLake(Lake(lake.root.store, lake.root.info))
    assert act(again, PoolHandle(again, pool.info()), op) == told
    assert looks(lake) == looks(again) == after


@pytest.mark.parametrize("name", sorted(ACTS.keys() - {"create", "rename", "drop"}))
def test_a_change_that_is_repeated_after_other_changes_is_still_done_once(lake: LocalLake, name: str) -> None:
    act, op, pool = ACTS[name], to_text(new()), lake.pool("logs")
    told = act(lake, pool, op)
    pool.load([{"k": 20}])
    pool.branch("side").load([{"k": 21}])
    after = looks(lake)
    assert act(lake, pool, op) == told
    assert looks(lake) == after


def test_what_was_created_at_a_branch_that_has_gone_is_not_looked_for_again(lake: LocalLake) -> None:
    pool, ops = lake.pool("logs"), [to_text(new()), to_text(new())]
    for _ in range(2):
        pool.create_branch("more", "spare", op=ops[0])
        pool.create_tag("v2", "spare", op=ops[1])
        if any(branch.name == "spare" for branch in pool.branches()):
            pool.drop_branch("spare")
    with pytest.raises(NotFound):
        pool.create_branch("most", "spare", op=to_text(new()))


def test_a_branch_that_was_made_dropped_and_is_made_again_by_the_same_id_stays_dropped(lake: LocalLake) -> None:
    pool, op = lake.pool("logs"), to_text(new())
    pool.create_branch("more", op=op)
    pool.drop_branch("more")
    pool.create_branch("more", op=op)
    assert "more" not in [branch.name for branch in pool.branches()]


def test_the_id_of_an_operation_says_what_it_made(lake: LocalLake) -> None:
    pool = lake.pool("logs")
    for name in ("load", "merge", "rebase"):
        op, branch = to_text(new()), "side" if name == "rebase" else "main"
        assert pool.branch(branch).done(op) is None
        told = ACTS[name](lake, pool, op)
        assert pool.branch(branch).done(op) == told


@pytest.mark.parametrize("name", sorted(ACTS.keys() - {"drop"}))
def test_the_id_of_another_operation_is_refused(lake: LocalLake, name: str) -> None:
    pool, op, lakes = lake.pool("logs"), to_text(new()), ("create", "rename", "drop")
    ACTS[name](lake, pool, op)
    after = looks(lake)
    with pytest.raises(InvalidInput):
        if name in lakes:
            lake.rename("renamed" if name == "rename" else "logs", "third", op=op)
        else:
            (divided(lake) if name in ("delete partition", "rewrite") else pool).drop_branch("side", op=op)
    assert looks(lake) == after


def test_an_unknown_outcome_keeps_its_id_when_it_goes_to_another_process() -> None:
    error = OutcomeUnknown("it is not known", to_text(new()))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.commit) == (str(error), error.commit)
    assert OutcomeUnknown("no id").commit is None
