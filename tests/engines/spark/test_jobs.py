"""How work is cut into tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.engines.spark import jobs
from shoal.engines.spark.jobs import parse_bytes, task_count


@pytest.mark.parametrize(
    ("text", "count"),
    [("134217728b", 1 << 27), ("128MB", 1 << 27), ("128m", 1 << 27), ("1g", 1 << 30), ("5", 5), ("", 0), ("much", 0)],
)
def test_sizes_of_spark_are_numbers_of_bytes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


def test_tasks_are_as_large_as_spark_makes_them(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_sizes, tmp_path)


def check_sizes(tmp_path: Path) -> None:
    """The number of tasks grows with bytes once cores have enough, and has a limit."""
    lake = shoal.create(tmp_path / "lake")
    lake.create("p", key="k").load([{"k": 1}])
    assert lake.query("from p | sum(k)", engine="spark").to_list() == [1]
    least, gib = 2 * jobs.cores(), 1 << 30
    spark = shoal.spark.session()
    setting = "spark.sql.files.maxPartitionBytes"
    assert task_count() == task_count(1000) == task_count(least << 24) == least
    assert task_count(100 * gib) == 800
    before = spark.conf.get(setting)
    spark.conf.set(setting, "1g")
    try:
        assert task_count(100 * gib) == 100
        assert task_count(10**18) == jobs.MOST_TASKS
    finally:
        spark.conf.set(setting, before)
