"""What tasks write is what this process would have written: loads of all kinds, compaction, deletion of records."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.api.lake import Lake
from shoal.api.options import ReadOptions
from shoal.api.pool import Pool as Handle
from shoal.engines.spark.session import spark_session
from shoal.errors import CorruptData, InvalidInput, NotFound
from shoal.ids import to_text
from shoal.lake import partitioning
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.local import file_loads
from shoal.local.lake import stored
from shoal.model.text import format_value
from shoal.testing.lake_checks import check_columns
from shoal.testing.services import serving


def test_tasks_write_what_this_process_would_have_written(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_all, tmp_path)


def check_all(root: Path) -> None:
    """Everything in one lake."""
    lake = shoal.create(root / "lake")
    with patch.object(file_loads, "SMALLEST", 4000):
        check_files(lake, root)
        check_bad_files(lake, root)
    check_frames(lake, objects=3)
    check_rewriting(lake)
    with patch.object(partitioning, "TASK_PARTITION_SIZE", 4000):
        check_slices(lake, root)
    with serving(root / "served", root, ["-log.level", "warn"]) as served:
        check_frames(shoal.open(served.url), objects=1)


def texts(lake: Lake, program: str) -> Counter[str]:
    return Counter(map(format_value, lake.query(program)))


def written(root: Path) -> dict[str, Path]:
    """A file of each kind."""
    rows = [{"ts": i * 31 % 997, "name": f"n{i}", "x": {"y": i / 4} if i % 3 else None} for i in range(997)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    tables = [{"ts": i, "s": f"text {i}", "f": i / 8} for i in range(2000)]
    made = {
        "lines.json": lines.encode(),
        "pretty.json": json.dumps(rows, indent=1).encode(),
        "lines.json.gz": gzip.compress(lines.encode()),
        "plain.csv": b"ts,word,n\n" + b"".join(b"%d,word %d,%d\n" % (i, i, i * i) for i in range(900)),
        "late.csv": b"ts,n\n" + b"".join(b"%d,%d\n" % (i, i) for i in range(900)) + b"900,1.5\n",
        "quoted.csv": b"ts,word\n" + b"".join(b'%d,"word\n%d, and ""more"""\n' % (i, i) for i in range(900)),
        "values.zson": b"".join(b"{ts:%d,ip:10.0.0.%d,u:%d(uint8)}\n" % (i, i % 256, i % 256) for i in range(500)),
    }
    for name, data in made.items():
        (root / name).write_bytes(data)
    pq.write_table(pa.Table.from_pylist(tables), root / "groups.parquet", row_group_size=300)
    return {name: root / name for name in [*made, "groups.parquet"]}


def check_files(lake: Lake, root: Path) -> None:
    files = written(root)
    for number, path in enumerate(files.values()):
        here, there = (lake.create(f"{kind}{number}", key="ts") for kind in ("here", "there"))
        here.load(path)
        there.load(str(path), engine="spark", message="in tasks")
        assert texts(lake, f"from there{number}") == texts(lake, f"from here{number}"), path.name
        assert [c.message for c in there.log()] == ["in tasks"]
        parts = sum(1 for _ in there.objects())
        assert parts > 1 or path.name in ("pretty.json", "lines.json.gz", "quoted.csv", "values.zson"), path.name
    together = lake.create("together", key="ts")
    together.load(list(files.values()), engine="spark")
    assert texts(lake, "from together") == sum((texts(lake, f"from here{i}") for i in range(len(files))), Counter())
    assert len(list(together.log())) == 1
    check_registry(together)


def check_registry(pool: Handle) -> None:
    """Tasks have registered the columns of their objects, each once."""
    inner = stored(pool)
    check_columns(inner.store, inner)


def check_bad_files(lake: Lake, root: Path) -> None:
    bad = root / "bad.json"
    bad.write_bytes(b'{"ts":1}\n' * 2000 + b'{"ts":\n' + b'{"ts":2}\n' * 2000)
    pool = lake.create("bad", key="ts")
    with pytest.raises(InvalidInput) as here:
        pool.load(bad)
    with pytest.raises(InvalidInput) as there:
        pool.load([root / "lines.json", bad], engine="spark")
    assert str(there.value) == str(here.value)
    assert list(pool.objects()) == []
    kept = {name: lake.create(f"kept {name}", key="ts") for name in ("interp", "spark")}
    for engine, each in kept.items():
        each.load(str(bad), engine=None if engine == "interp" else engine, options=ReadOptions(bad="keep"))
    assert texts(lake, "from 'kept spark'") == texts(lake, "from 'kept interp'")
    assert sum(text.startswith("error") for text in texts(lake, "from 'kept spark'")) == 1
    assert list((root / "lake" / pool.id).glob("data/*")) == []
    with pytest.raises(NotFound, match="nowhere"):
        pool.load(root / "nowhere", engine="spark")
    with pytest.raises(InvalidInput, match="files and DataFrames"):
        pool.load([{"ts": 1}], engine="spark")


def check_frames(lake: Lake, objects: int) -> None:
    session = spark_session()
    frame = session.range(0, 500, 1, 3).selectExpr("id as ts", "concat('u', id) as name", "array(id, 2) as list")
    pool = lake.create("frames", key="ts")
    pool.load(frame)
    assert texts(lake, "from frames") == Counter(f'{{ts:{i},name:"u{i}",list:[{i},2]}}' for i in range(500))
    assert len(list(pool.log())) == 1
    assert sum(1 for _ in pool.objects()) == objects


def check_rewriting(lake: Lake) -> None:
    for engine in ("interp", "spark"):
        pool = lake.create(f"rewritten_{engine}", key="ts")
        for part in range(6):
            pool.load([{"ts": (i * 13 + part) % 300, "n": i if i % 4 else str(i)} for i in range(300)])
        before = texts(lake, f"from rewritten_{engine}")
        (done,) = pool.compact_all(engine=engine)
        assert (done.objects, sum(1 for _ in pool.objects())) == (6, 1)
        assert texts(lake, f"from rewritten_{engine}") == before
        check_registry(pool)
        pool.delete(where="n > 100 or n == '8'", engine=engine)
        check_registry(pool)
    kept = texts(lake, "from rewritten_spark")
    assert kept == texts(lake, "from rewritten_interp")
    assert 0 < sum(kept.values()) < 1800
    with pytest.raises(InvalidInput, match="empty transaction"):
        lake.pool("rewritten_spark").delete(where="n > 1000000", engine="spark")


def check_slices(lake: Lake, root: Path) -> None:
    """A compaction in many partitions, for which some tasks slice objects and others join the slices."""
    pool = lake.create("pieces", key="ts")
    for part in range(20):
        pool.load([{"ts": (i * 13 + part) % 300, "n": 1000 * part + i} for i in range(300)])
    before = [format_value(v) for v in lake.query("from pieces")]
    pool.create_branch("damaged")
    (done,) = pool.compact_all(engine="spark")
    assert done.objects == 20
    assert sum(1 for _ in pool.objects()) > 20
    assert [format_value(v) for v in lake.query("from pieces")] == before
    files = set((root / "lake" / pool.id).glob("data/*"))
    partition = partitioning.partition_objects

    def partition_and_damage(pool: Pool, objects: Sequence[DataObject], size: int) -> partitioning.Partitioning:
        """So that tasks find it, and not this process when it looks for keys."""
        work = partition(pool, objects, size)
        victim = next(path for path in files if path.stem == to_text(objects[7].id))
        victim.write_bytes(victim.read_bytes()[:-1])
        return work

    with (
        patch.object(partitioning, "partition_objects", partition_and_damage),
        pytest.raises(CorruptData, match="checksum mismatch"),
    ):
        list(pool.branch("damaged").compact_all(engine="spark"))
    assert set((root / "lake" / pool.id).glob("data/*")) == files
