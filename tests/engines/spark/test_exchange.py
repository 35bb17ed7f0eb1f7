"""Keys that many rows have are shared by several partitions, and nothing changes but who does the work."""

from __future__ import annotations

from pathlib import Path

from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.engines.spark import exchange, jobs
from shoal.engines.spark.exchange import Edge, Ranked, cut_edges
from shoal.lang import plan
from shoal.model.values import Value, int64
from shoal.testing.agreement import difference

ORDER = Ranked(plan.Sort((plan.SortKey(plan.This(), "asc"),)), ())


def edges(firsts: list[tuple[int, int, int]], count: int, other: list[int] | None = None) -> list[tuple[int, int, int]]:
    """Edges of the first keys of runs, each with its task and its number."""
    sides = [[Edge([int64(key)], task, run) for key, task, run in firsts]]
    sides.append([Edge([int64(key)], 0, run) for run, key in enumerate(other or [])])
    return [(edge.keys[0].data, edge.task, edge.run) for edge in cut_edges(sides, ORDER, count, split=0)]


def test_rows_of_one_key_are_in_one_part_unless_there_are_many() -> None:
    runs = [(key, key % 2, key) for key in range(8)]
    assert edges(runs, 4) == [(2, -1, 0), (4, -1, 0), (6, -1, 0)]


def test_rows_of_a_frequent_key_are_cut_by_task_and_run() -> None:
    runs = [(5, task, run) for task in range(2) for run in range(4)]
    assert edges(runs, 4) == [(5, -1, 0), (5, 0, 2), (5, 1, 1)]


def test_rows_that_all_parts_would_need_are_not_cut() -> None:
    runs = [(5, 0, run) for run in range(4)]
    assert edges(runs, 4, other=[5] * 5) == [(5, -1, 0)]


PROGRAMS = (
    "from skewed | sort k",
    "from skewed | sort -r k, n",
    "from skewed | put u:=upper(s) | sort u",
    "from skewed | join (from few) on k=k name",
    "from skewed | left join (from few) on k=k name",
    "from skewed | anti join (from few | k != 7) on k=k",
    "from few | right join (from skewed) on k=k name | count() by name",
    "from few | join (from skewed) on k=k n",
    "from skewed | sort -r n | join (from few) on k=k name",
    "from skewed | n % 10 == 0 | join (from skewed | n % 50 == 0 | put m:=n) on k=k m",
)


def test_skewed_keys_give_the_same_rows(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_programs, tmp_path)


def check_programs(tmp_path: Path) -> None:
    """Nine of ten rows have one key."""
    lake = shoal.create(tmp_path / "lake")
    skewed = lake.create("skewed", key="id")
    for start in range(0, 3000, 500):
        rows = [
            {"id": i, "k": i % 30 if i % 10 == 0 else 7, "n": i, "s": "abc"[i % 2 :]} for i in range(start, start + 500)
        ]
        skewed.load(rows)
    lake.create("few", key="k").load([{"k": k, "name": f"n{k}"} for k in (0, 7, 7, 10, 29)])
    before, counts = jobs._CHUNK, []
    cut = exchange.cut_edges

    def counted(*args: object) -> list[Edge]:
        found = cut(*args)  # type: ignore[arg-type]
        counts.append(sum(edge.is_within_key for edge in found))
        return found

    jobs._CHUNK, exchange.cut_edges = 2000, counted  # type: ignore[assignment]
    try:
        for program in PROGRAMS:
            right: list[Value] = list(lake.query(program, engine="interp"))
            found = list(lake.query(program, engine="spark"))
            assert difference(right, found, ordered="count()" not in program) is None, program
    finally:
        jobs._CHUNK, exchange.cut_edges = before, cut
    assert sum(map(bool, counts)) >= 4, counts
