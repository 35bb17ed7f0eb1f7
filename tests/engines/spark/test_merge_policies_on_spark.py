"""Spark gives the merged records of a pool with a merge policy: in queries, statements and DataFrames."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.model.text import format_value
from shoal.testing.queries import parse_values

POLICIES = ("dedupe", "replace by ts", "aggregate sum(n), max(ts) by k, s", "program sort ts | tail 1")


def test_merge_policies(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_all, tmp_path)


def check_all(tmp_path: Path) -> None:
    """Everything in one session."""
    lake, spark = shoal.create(tmp_path / "lake"), shoal.spark.session()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shoal.planner.merged_sources.READ_SIZE", 3000)
        for seed, policy in enumerate(POLICIES):
            pool = lake.create(f"p{seed}", key="k", policy=policy)
            for text in loads(random.Random(seed)):
                pool.load(parse_values(text))
            results_stay_the_same(lake, spark, pool)
    streams_pass_over_compactions(lake, spark, tmp_path)


def loads(chance: random.Random) -> list[str]:
    def text() -> str:
        fields = f"ts:{chance.randrange(9)},n:{chance.randrange(5)}"
        s = chance.choice(['s:"a"', 's:"b"', "s:7"])
        return f"{{k:{chance.randrange(40)},{fields},{s}}}"

    return ["".join(text() for _ in range(120)) + "{z:1}{z:1}" for _ in range(3)]


def results_stay_the_same(lake: Lake, spark: Any, pool: Pool) -> None:
    """Before and after a compaction by tasks, and with another load after it."""
    for step in ("compact", "load", "compact", ""):
        name = pool.name
        wanted = bag(lake, f"from {name}", "interp")
        filtered = bag(lake, f"from {name} | k > 10 and ts > 4", "interp")
        assert bag(lake, f"from {name}", "spark") == wanted
        assert bag(lake, f"from {name} | k > 10 and ts > 4", "spark") == filtered
        assert bag(lake, f"from {name} | sum(n), count() by s", "spark") == bag(
            lake, f"from {name} | sum(n), count() by s", "interp"
        )
        plain = rows(lake.sql(f"select * from {name}", engine="duckdb").to_arrow().to_pylist())
        assert plain.total() == wanted.total()
        assert rows(lake.sql(f"select * from {name}", engine="spark").to_arrow().to_pylist()) == plain
        frame = spark.read.format("shoal").option("lake", lake.uri).load(name)
        assert rows(row.asDict() for row in frame.collect()) == plain
        assert frame.count() == wanted.total()
        program = spark.read.format("shoal").option("lake", lake.uri).option("query", "k > 10 and ts > 4").load(name)
        assert program.count() == filtered.total()
        match step:
            case "compact":
                assert [done.error for done in pool.branch("main").compact_all(engine="spark")] != []
                assert bag(lake, f"from {name}", "interp") == wanted
            case "load":
                pool.load(parse_values(loads(random.Random(99))[0]))


def streams_pass_over_compactions(lake: Lake, spark: Any, tmp_path: Path) -> None:
    """A stream gives the records that were committed; a compaction that merges them brings nothing."""
    pool = lake.create("streamed", key="k", policy="replace by ts")
    pool.load(parse_values("{k:1,ts:1}{k:2,ts:1}"))
    stream = spark.readStream.format("shoal").option("lake", lake.uri).load("streamed")
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "state"))

    def advance() -> Counter[str]:
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        return rows(row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect())

    assert advance().total() == 2
    pool.load(parse_values("{k:1,ts:5}"))
    assert len(list(pool.branch("main").compact_all())) == 1
    assert advance().total() == 3
    pool.load(parse_values("{k:3,ts:5}"))
    assert advance().total() == 4


def bag(lake: Lake, program: str, engine: str) -> Counter[str]:
    return Counter(map(format_value, lake.query(program, engine=engine)))


def rows(found: Any) -> Counter[str]:
    return Counter(str(sorted((k, v) for k, v in row.items() if v is not None)) for row in found)
