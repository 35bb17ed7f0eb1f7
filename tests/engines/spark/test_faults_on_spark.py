"""Whoever dies in the middle of a change on Spark: it has happened once or not at all, and nothing but orphans stay."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.engines.spark.conftest import Bench

import shoal
from shoal.api.lake import Lake
from shoal.model.text import format_value

ROWS = 6000
PREAMBLE = """
    import shoal
    from pathlib import Path
    from shoal.local import file_loads
    from shoal.api.options import ReadOptions
    file_loads.SMALLEST = 20_000
    lake = shoal.open({lake!r})
    pool = lake.pool("logs")
"""


def new_lake(root: Path) -> tuple[Lake, Path]:
    lake = shoal.create(root / "lake")
    lake.create("logs", key="ts")
    data = root / "logs.json"
    rows = ({"ts": i * 7919 % ROWS, "level": "warn" if i % 5 else "info", "n": i} for i in range(ROWS))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return lake, data


def check_once(lake: Lake, times: int = 1) -> None:
    (found,) = lake.query("from logs | count(), sum(n)")
    assert format_value(found) == f"{{count:{times * ROWS}(uint64),sum:{times * ROWS * (ROWS - 1) // 2}}}"
    assert sum(1 for _ in lake.pool("logs").log()) == times


def check_orphans(lake: Lake, root: Path, at_least: int) -> None:
    """What no commit names goes by a vacuum, and it alone."""
    pool = lake.pool("logs")
    files = len(list((root / "lake" / pool.id / "data").iterdir()))
    assert files - sum(1 for _ in pool.objects()) >= at_least
    pool.vacuum(grace=0)
    assert len(list((root / "lake" / pool.id / "data").iterdir())) == sum(1 for _ in pool.objects())


def test_a_cluster_loses_tasks_and_executors_but_no_data(bench: Bench, tmp_path: Path) -> None:
    """Two executors in processes of their own. Each death costs what was written, which is written again."""
    lake, data = new_lake(tmp_path)
    program = (
        PREAMBLE.format(lake=lake.uri)
        + f"""
    from shoal.testing.spark_faults import deadly_workers
    from shoal.lake.commits import Note
    from shoal.local.lake import stored
    from shoal.lake import changes, rewriting, partitioning
    from shoal.model.text import format_value
    for victim in ("task", "executor"):
        by = deadly_workers(victim, Path({str(tmp_path)!r}) / victim)
        objects = file_loads.load_files(stored(pool), [{str(data)!r}], "auto", ReadOptions(), by)
        stored(pool).committer.commit(changes.load("main", objects, Note("tester", victim)))
    by = deadly_workers("task", Path({str(tmp_path)!r}) / "compaction")
    inner = stored(pool)
    ids = [o.id for o in inner.snapshot(inner.resolve()).objects()]
    stored(pool).names.create_branch("compacted", inner.resolve())
    partitioning.TASK_PARTITION_SIZE = 20_000
    rewriting.compact(inner, "compacted", ids, Note("tester"), lambda size: by)
    for question in ("count() by level", "sort n | tail 3", "where n > 5990 | put s:=upper(level) | sort -r n",
                     "sum(n), avg(ts) by level | sort level", "sort ts, n | head 4"):
        for commitish in ("main", "compacted"):
            text = f"from logs@{{commitish}} | {{question}}"
            right, found = (sorted(map(format_value, lake.query(text, engine=e))) for e in ("interp", "spark"))
            assert right == found, text
    print(len(objects) > 1, sorted(p.name for p in Path({str(tmp_path)!r}).iterdir() if p.stat().st_size == 0))
    """
    )
    said = bench.run(program, SHOAL_SPARK_MASTER="local-cluster[2,1,1024]")
    assert said == ["True ['compaction', 'executor', 'task']"]
    check_once(lake, times=2)
    assert len(list(lake.query("from logs@compacted"))) == 2 * ROWS
    lake.pool("logs").drop_branch("compacted")
    check_orphans(lake, tmp_path, at_least=2)
    check_once(lake, times=2)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_driver_dies_before_or_after_its_commit(bench: Bench, tmp_path: Path, moment: str) -> None:
    lake, data = new_lake(tmp_path)
    operation = shoal.ids.to_text(shoal.ids.new())
    program = (
        PREAMBLE.format(lake=lake.uri)
        + f"""
    import os, signal
    from shoal.lake.committer import Committer
    commit = Committer.join
    def join(*args):
        if {moment!r} == "after":
            commit(*args)
        os.kill(os.getpid(), signal.SIGKILL)
    Committer.join = join
    pool.load({str(data)!r}, engine="spark", op={operation!r})
    """
    )
    process = bench.start(program, SHOAL_SPARK_MASTER="local[2]")
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out, err) == (-signal.SIGKILL, "", "")
    if moment == "before":
        assert list(lake.pool("logs").objects()) == []
    else:
        check_once(lake)
    # The client does not know, and does it again.
    lake.pool("logs").load(data, op=operation)
    check_once(lake)
    check_orphans(lake, tmp_path, at_least=2 if moment == "before" else 0)
    check_once(lake)
