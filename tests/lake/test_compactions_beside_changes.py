"""Compactions never stand in the way: a history goes the same whether pools are compacted between its steps or not.

Each history runs twice, in two lakes. In one of them objects are compacted at every turn, data is moved out of commits,
and deletions write objects again. Whatever succeeds in the other succeeds here, and every branch has the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import shoal
from shoal.api.pool import Pool as PoolHandle
from shoal.api.transaction import Transaction
from shoal.errors import InvalidInput, ShoalError
from shoal.ids import to_text
from shoal.local.lake import LocalLake, stored
from shoal.model.text import format_value
from shoal.testing.lineage_checks import contributors, require_origins
from shoal.testing.tiers import IS_LONG

RUNS = 3000 if IS_LONG else 25
"""Histories of each kind of pool."""
BRANCHES = ("main", "b", "c")
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no inline data": {"inline": 0},
    "small objects": {"inline": 0, "object_size": 120},
    "rows": {"inline": 0, "seek_stride": 1},
    "keyed": {"primary": "k"},
    "keyed by another field": {"key": "v", "primary": "k", "inline": 0},
    "dedupe": {"policy": "dedupe"},
    "replace": {"policy": "replace by v"},
    "sums": {"policy": "aggregate sum(v)", "inline": 0},
    "partitions": {"partition": "p", "inline": 0},
}  # fmt: skip

Cells = list[tuple[int, int]]
cells = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=6)
pick = st.integers(0, 999)
steps = st.one_of(
    st.tuples(st.just("load"), pick, cells),
    st.tuples(st.just("load"), pick, cells),
    st.tuples(st.just("delete_where"), pick, pick),
    st.tuples(st.just("update"), pick, pick),
    st.tuples(st.just("upsert"), pick, cells),
    st.tuples(st.just("branch"), pick, pick),
    st.tuples(st.just("merge"), pick, pick),
    st.tuples(st.just("merge"), pick, pick),
    st.tuples(st.just("rebase"), pick, pick),
    st.tuples(st.just("revert"), pick, pick),
    st.tuples(st.just("cherry_pick"), pick, pick),
    st.tuples(st.just("begin"), pick, pick),
    st.tuples(st.just("stage_load"), pick, cells),
    st.tuples(st.just("stage_delete"), pick, pick),
    st.tuples(st.just("stage_update"), pick, pick),
    st.tuples(st.just("commit"), pick, pick),
)
Step = tuple[str, int, Any]


@dataclass
class Twin:
    """One of the two lakes."""

    pool: PoolHandle
    lake: LocalLake
    commits: list[str] = field(default_factory=list)
    """What each step has made."""
    open: tuple[AbstractContextManager[Transaction], Transaction] | None = None

    def records(self, branch: str) -> list[str]:
        return sorted(map(format_value, self.lake.query(f"from p@{branch}")))

    def act(self, step: Step, number: int) -> str | None:
        """Take a step; the commit that it has made, if any."""
        act: Callable[[int, Any, int], str | None] = getattr(self, step[0])
        return act(step[1], step[2], number)

    def at(self, pick: int) -> Any:
        return self.pool.branch(BRANCHES[pick % 3])

    def some(self, pick: int) -> str:
        if not self.commits:
            raise InvalidInput("no commits yet")
        return self.commits[-1 - pick % len(self.commits)]

    def load(self, pick: int, cells: Cells, number: int) -> str:
        return str(self.at(pick).load(self.values(cells, number)))

    def values(self, cells: Cells, number: int) -> list[dict[str, int]]:
        settings = stored(self.pool).config.settings
        if settings.primary:
            cells = list(dict(cells).items())
        if settings.primary or settings.policy:
            return [{"k": k, "v": v} for k, v in cells]
        return [{"k": k, "v": v, "p": k % 2, "n": 100 * number + i} for i, (k, v) in enumerate(cells)]

    def upsert(self, pick: int, cells: Cells, number: int) -> str:
        return str(self.at(pick).upsert(self.values(cells, number)))

    def delete_where(self, pick: int, which: int, number: int) -> str:
        return str(self.at(pick).delete(where=_where(which)))

    def update(self, pick: int, which: int, number: int) -> str:
        return str(self.at(pick).update(_where(which), f"put v:=v+{1 + which % 2}"))

    def branch(self, pick: int, which: int, number: int) -> None:
        self.pool.create_branch(BRANCHES[1 + pick % 2], BRANCHES[which % 3])

    def merge(self, pick: int, which: int, number: int) -> str:
        return str(self.at(pick).merge(BRANCHES[which % 3]))

    def rebase(self, pick: int, which: int, number: int) -> None:
        self.at(pick).rebase(BRANCHES[which % 3])

    def revert(self, pick: int, which: int, number: int) -> str:
        return str(self.at(pick).revert(self.some(which)))

    def cherry_pick(self, pick: int, which: int, number: int) -> str:
        return str(self.at(pick).cherry_pick(self.some(which)))

    def begin(self, pick: int, which: int, number: int) -> None:
        if self.open is not None:
            raise InvalidInput("one at a time")
        context = self.at(pick).transaction(isolation="serializable" if which % 8 == 0 else "snapshot")
        self.open = context, context.__enter__()

    def staging(self) -> Transaction:
        if self.open is None:
            raise InvalidInput("none is open")
        return self.open[1]

    def stage_load(self, pick: int, cells: Cells, number: int) -> None:
        self.staging().load(self.values(cells, number))

    def stage_delete(self, pick: int, which: int, number: int) -> None:
        self.staging().delete(where=_where(which))

    def stage_update(self, pick: int, which: int, number: int) -> None:
        self.staging().update(_where(which), "put v:=v+1")

    def commit(self, pick: int, which: int, number: int) -> str:
        transaction = self.staging()
        (context, _), self.open = self.open or (None, None), None
        try:
            return str(transaction.commit())
        except ShoalError:
            transaction.abandon()
            raise
        finally:
            del context  # it ends the transaction when nobody has it any more

    # ---- compactions

    def compact(self, dice: int) -> None:
        """Move rows of a branch, in one of several ways."""
        branch = BRANCHES[dice % 3]
        if branch not in {ref.name for ref in self.pool.branches()}:
            return
        pool = stored(self.pool)
        objects = list(pool.snapshot(pool.resolve(branch)).objects())
        before = contributors(pool, pool.resolve(branch))
        if dice // 3 % 4 == 0:
            for done in self.pool.branch(branch).compact_all():
                assert done.commit is not None, done
        elif len(objects) > 1:
            chosen = [o for i, o in enumerate(objects) if (dice >> 4) >> i & 1] or objects
            with_all = chosen if len(chosen) > 1 else objects
            try:
                self.pool.branch(branch).compact([to_text(o.id) for o in with_all])
            except InvalidInput as e:
                assert "different partitions" in str(e)
        assert contributors(pool, pool.resolve(branch)) == before


def _where(which: int) -> str:
    return (f"k == {which % 8}", f"k < {which // 8 % 8}", f"k >= {which // 8 % 8}")[which // 64 % 3]


@contextmanager
def moving(dice: int) -> Iterator[None]:
    """Deletions write objects again, and data moves out of commits soon."""
    with patch("shoal.lake.record_deletion.REWRITTEN_SHARE", (0.01, 0.5, 0.3)[dice % 3]):
        with patch("shoal.lake.roll_up.MOST_INLINE", 2):
            yield


@contextmanager
def staying() -> Iterator[None]:
    """Nothing moves."""
    with patch("shoal.lake.record_deletion.REWRITTEN_SHARE", 2), patch("shoal.lake.roll_up.MOST_INLINE", 1 << 30):
        yield


def twin(kind: str) -> Twin:
    lake = shoal.create("memory://")
    assert isinstance(lake, LocalLake)
    options = {"key": "k", **KINDS[kind]}
    return Twin(lake.create("p", **options), lake)


def compare(kind: str, history: list[tuple[Step, int]]) -> None:
    still, moved = twin(kind), twin(kind)
    with ExitStack() as small:
        small.enter_context(patch("shoal.lake.snapshots.CHECKPOINT_EVERY", 3))
        small.enter_context(patch("shoal.lake.lineage.MOST_INSIDE", 40))
        for number, (step, dice) in enumerate(history):
            try:
                with staying():
                    made = still.act(step, number)
            except ShoalError as e:
                note(f"{step} is refused: {e}")
                if step[0] == "commit":
                    moved.open = None
                continue
            note(f"{step} {dice}")
            with moving(dice):
                again = moved.act(step, number)
                assert (made is None) == (again is None)
                if made is not None and again is not None:
                    still.commits.append(made)
                    moved.commits.append(again)
                for turn in range(dice % 4):
                    moved.compact(dice // 4 >> turn)
            for ref in still.pool.branches():
                assert moved.records(ref.name) == still.records(ref.name), ref.name
        pool = stored(moved.pool)
        for ref in moved.pool.branches():
            if not KINDS[kind].get("policy", "").startswith("aggregate"):
                require_origins(pool, pool.resolve(ref.name))


@pytest.mark.timeout(36_000 if IS_LONG else 300)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=RUNS, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(st.tuples(steps, st.integers(0, 1 << 16)), min_size=4, max_size=40 if IS_LONG else 25))
def test_a_history_goes_the_same_with_compactions(kind: str, history: list[tuple[Step, int]]) -> None:
    compare(kind, [(("load", 0, [(1, 1), (2, 2), (3, 3)]), 0), (("branch", 0, 0), 0), *history])
