"""Tasks load, compact and rewrite pools with partitions as this process does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest.mock import patch

from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.api.lake import Lake
from shoal.engines.spark.session import spark_session
from shoal.errors import InvalidInput
from shoal.local import file_loads
from shoal.model.text import format_value


def test_tasks_keep_partitions_apart(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_partitions, tmp_path)


def check_partitions(root: Path) -> None:
    """Everything in one lake."""
    lake = shoal.create(root / "lake")
    lines = "".join(f'{{"k":{i},"n":{i % 3},"s":"text {i}"}}\n' for i in range(997)) + '{"k":997}\n'
    (root / "lines.json").write_text(lines)
    (root / "bad.json").write_text(lines + '{"k":998,"n":"x","s":1}\n')
    pool = lake.create("divided", key="k", partition="bucket(n,1ns)")
    with patch.object(file_loads, "SMALLEST", 4000):
        pool.load(root / "lines.json", engine="spark")
        try:
            pool.load(root / "bad.json", engine="spark")
            raise AssertionError("a bad record was loaded")
        except InvalidInput as e:
            assert "record 999: the partition expression" in str(e), e
    lake.create("whole", key="k").load(root / "lines.json")
    before = {format_value(p.value): (p.objects, p.records) for p in pool.partitions() if p.value is not None}
    assert [records for _, records in before.values()] == [333, 332, 332, 1]
    assert max(objects for objects, _ in before.values()) > 1
    compare(lake)
    assert all(done.commit for done in pool.compact_all(engine="spark"))
    assert [p.objects for p in pool.partitions()] == [1, 1, 1, 1]
    compare(lake)
    names = [format_value(p.value) for p in pool.partitions() if p.value is not None]
    pool.rewrite(names[0], "put x := k", engine="spark")
    assert len(list(pool.query("has(x)"))) == 333
    pool.delete(where="k % 2 == 0", engine="spark")
    assert sum(p.records for p in pool.partitions()) == 499
    frame = spark_session().createDataFrame([(2000, 0), (2001, 1)], "k long, n long")
    pool.load(frame)
    assert sum(p.records for p in pool.partitions()) == 501
    assert {format_value(p.value) for p in pool.partitions() if p.value is not None} == set(names) | {
        'error("missing")'
    }


def compare(lake: Lake) -> None:
    for program in ("pass", "count() by n", "n == 1 | sum(k)", "where n in [0,2] and k < 100"):
        counts = [
            Counter(map(format_value, lake.query(f"from {name} | {program}", engine=engine)))
            for name, engine in (("whole", "interp"), ("divided", "interp"), ("divided", "spark"))
        ]
        assert counts[0] == counts[1] == counts[2], program
