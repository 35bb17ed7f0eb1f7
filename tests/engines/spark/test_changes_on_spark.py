"""Changes of records on Spark: statements do what they do on DuckDB, and frames are compared by key in tasks."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.api.lake import Lake
from shoal.engines.spark.session import spark_session
from shoal.errors import AlreadyExists, InvalidInput
from shoal.lake import keyed_changes

STATEMENTS = (
    "update t set n = n + 1, u.name = upper(s) where n > 3 or k in (select k from other)",
    "delete from t where k % 7 = 3",
    (
        "merge into t using other as o on t.k = o.k when matched and o.n > 50 then delete "
        "when matched then update set s = concat('m', o.n) when not matched then insert (k, n) values (o.k, o.n)"
    ),
    (
        "merge into t using (select 1 as k, 'all' as s union all select -5, 'new') as o using (k) "
        "when matched then update set * when not matched then insert * "
        "when not matched by source and t.n = 5 then update set s = 'five'"
    ),
    "insert into t (k, s, \"from\") select k + 1000, 'copy', '10.0.0.7' from other where n > 90",
    "update t set s = o.n from other as o where o.k = t.k and t.k < 20",
)


def test_spark_changes_what_duckdb_changes(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_all, tmp_path)


def check_all(root: Path) -> None:
    """Each statement on both engines, in lakes of their own."""
    lakes = {engine: filled(shoal.create(root / engine)) for engine in ("duckdb", "spark")}
    for statement in STATEMENTS:
        counts = {}
        for engine, lake in lakes.items():
            (row,) = lake.sql(statement, engine=engine).to_list()
            counts[engine] = {name: row[name] for name in ("inserted", "updated", "deleted")}
        assert counts["spark"] == counts["duckdb"], statement
        values = [sorted(lake.query("from t").to_zson().splitlines()) for lake in lakes.values()]
        assert values[0] == values[1], statement
    created = "create table sums as select n, count(*) as c, sum(k) as total from t group by n order by n"
    for engine, lake in lakes.items():
        lake.sql(created, engine=engine)
    assert lakes["spark"].query("from sums").to_zson() == lakes["duckdb"].query("from sums").to_zson()


def filled(lake: Lake) -> Lake:
    """Pools with hidden rows, several objects and several shapes."""
    pool = lake.create("t", key="k")
    pool.load([{"k": k, "n": k % 11, "s": f"s{k}"} for k in range(300)])
    pool.load([{"k": k, "n": k / 8, "u": {"name": f"u{k}", "id": k}} for k in range(300, 500)])
    pool.load(b'{k:600,n:3(uint8),from:10.0.0.1,took:3ms}{k:601,s:"text"}')
    pool.delete(where="k == 17 or k == 404")
    lake.create("other", key="k").load([{"k": k, "n": k % 97} for k in range(0, 700, 7)])
    return lake


def test_tasks_compare_the_keys_of_frames(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_frames, tmp_path)


def check_frames(root: Path) -> None:
    """An upsert and a load of frames, whose keys the driver never has."""
    lake = shoal.create(root / "keyed")
    pool = lake.create("t", key="k", primary="k")
    for start in range(0, 3000, 1000):
        pool.load([{"k": k, "s": "old"} for k in range(start, start + 1000)])
    pool.delete(keys=[5, 1500])
    spark = spark_session()
    frame = spark.range(990, 2010, numPartitions=3).selectExpr("id as k", "'new' as s")
    with patch.object(keyed_changes, "index_of", side_effect=AssertionError("the driver reads keys")):
        pool.upsert(frame)
        with pytest.raises(InvalidInput, match="duplicate records: primary key"):
            pool.upsert(frame.union(frame))
        with pytest.raises(AlreadyExists, match="records have this primary key"):
            pool.load(frame)
        pool.load(spark.range(9000, 9100).selectExpr("id as k", "'more' as s"))
    counts = {row["s"]: row["n"] for row in lake.sql("select s, count(*) as n from t group by s").to_list()}
    assert counts == {"old": 990 - 1 + 990, "new": 1020, "more": 100}
    assert lake.query("from t | count() by k | count > 1 | count()").to_list() in ([], [0])
