"""Statements that change a pool do the same on Spark as on DuckDB."""

from __future__ import annotations

from pathlib import Path

from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.api.lake import Lake

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
