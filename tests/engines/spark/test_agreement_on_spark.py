"""What tasks on Spark give is what the interpreter gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.api.lake import Lake
from shoal.errors import Unsupported
from shoal.local.lake import LocalLake
from shoal.model.values import Value
from shoal.testing.agreement import (
    COUNTED,
    Questions,
    Rows,
    check_statistics,
    difference,
    is_ordered,
    load_counted,
    outcome,
)
from shoal.testing.damaged_files import wrong_answers
from shoal.testing.tiers import IS_LONG

POOLS, QUESTIONS, DAMAGES = (12, 60, 100) if IS_LONG else (2, 10, 4)
KEYS = ("a", "ts", "k:desc", "s")
PLAIN = (
    "count() by typeof(this)",
    "sum(n), q:=count() by s",
    "where k == 1 | cut k, s | head 5",
    "dcount(s), union(n) by k",
    "fuse(this), any(s), collect(n)",
    "count() by k | count() by typeof(k)",
    "tail 4",
    "over list | count() by v:=this",
    "over list with x=count() => (yield {x,v:this})",
    "over list => (yield {n:count(),v:this})",
    "yield k, s | uniq",
    "switch (case k == 1 => cut k default => cut s) | count() by typeof(this)",
    "sort k | head 7",
    "top 3 k",
    "foo | count()",
    "sort -r s",
    "pass",
    "sort k, a",
    "put u:=upper(s) | sort u | put n:=1",
    "where regexp('o+', s) != null | count() by s",
    "yield {k,l:split(s, 'o')} | collect(l) by k | sort k",
    "over this | typeof(this) | count() by typeof(this)",
    "put q:=grok('%{WORD:w}', s) | sort q | head 3",
    "put q:=cast(k, <string>) | head 4",
    "put z:=levenshtein(n, 'foo') | count() by k",
)
"""Those that tasks can do whatever the data is."""
JOINS = (
    "sort -r k | left join (from o0 | sort s) on k=k z:=s | where k != 2 | put y:=z",
    "right join (from o0 | where has(a)) on a=k z:=n | count() by typeof(z)",
    "put u:=upper(s) | anti join (from o0 | left join (from o0) on k a) on u=s | sort -r k, s",
    "count() by k | join (from o0) on k z:=s | join (from o0 | sum(n) by k) on k sum",
)
"""Joins that are all done by tasks."""


def test_tasks_agree_with_the_interpreter_and_damage_is_told(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_all, tmp_path)


def check_programs(lake: Lake, pools: int, questions: int) -> None:
    """Generated programs over generated data, and joins."""
    on_spark = 0
    for seed in range(pools):
        pool = lake.create(f"p{seed}", key=KEYS[seed % len(KEYS)])
        for rows in Rows(seed * 10).loads(1 + seed % 3, 40):
            pool.load(rows)
        lake.create(f"o{seed}", key="id").load(Rows(seed * 10).rows(15))
        chance = [Questions(seed * questions + i).question(f"o{seed}") for i in range(questions)]
        for question in [*PLAIN, *chance]:
            program = f"from p{seed} | {question}"
            right = outcome(lambda: lake.query(program, engine="interp"))  # noqa: B023 - called at once
            found = outcome(lambda: lake.query(program, engine="spark"))  # noqa: B023
            assert difference(right, found, is_ordered(program)) is None, program
            if isinstance(right, str):
                continue  # not a valid program
            on_spark += any(part.engine == "spark" for part in lake.explain(program, engine="spark"))
    assert on_spark > pools * len(PLAIN) / 2

    for question in JOINS:
        program = f"from p0 | {question}"
        right, found = list(lake.query(program, engine="interp")), list(lake.query(program, engine="spark"))
        assert right
        assert difference(right, found, ordered="count()" not in question) is None, program
        first, *others = lake.explain(program, engine="spark")
        assert (first.engine, first.interpreted) == ("spark", ()), program
        assert all(other.why.startswith("joined by tasks") for other in others), program


def check_all(tmp_path: Path) -> None:
    """Everything in one session."""
    lake = shoal.create(tmp_path / "lake")
    assert isinstance(lake, LocalLake)
    check_programs(lake, POOLS, QUESTIONS)
    ties = lake.create("ties", key="k")
    for first_key in range(3):
        ties.load([{"k": k, "s": k % 2} for k in range(first_key, 30, 3)])
    for program in ("from ties | sort s | head 6", "from ties | top 5 s"):
        right, found = list(lake.query(program, engine="interp")), list(lake.query(program, engine="spark"))
        assert difference(right, found, ordered=True) is None, program

    counted = shoal.create(tmp_path / "counted")
    load_counted(counted)
    for program, read, matched in COUNTED:
        check_statistics(counted, program, read, matched, "spark")

    pool = lake.create("damaged", key="k")
    pool.load([{"k": i, "v": "x"} for i in range(100)])
    (file,) = (tmp_path / "lake" / pool.id / "data").iterdir()
    asks: list[Callable[[], Iterable[Value]]] = [
        lambda: lake.query("from damaged | sum(k) by v", engine="spark"),
        lambda: lake.sql("select sum(k) from damaged", engine="spark"),
    ]
    for ask in asks:
        wrong = wrong_answers(lambda: list(ask()), file, DAMAGES, random.Random(DAMAGES))  # noqa: B023 - called at once
        assert not wrong, "\n".join(wrong)

    remembered = shoal.create("memory://spark-test")
    remembered.create("p", key="k").load([{"k": 1}])
    with pytest.raises(Unsupported, match="memory"):
        list(remembered.query("from p | sum(k)", engine="spark"))
