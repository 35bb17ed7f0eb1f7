"""What Spark reads by itself from the files of a pool is what the source in Python gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.conftest import SharedSession
from tests.engines.spark.test_tables import EVERY_TYPE

import shoal
from shoal.api.lake import Lake
from shoal.errors import InvalidInput
from shoal.testing.damaged_files import WAYS, damage, write
from shoal.testing.tiers import IS_LONG

POOLS, DAMAGES = (60, 200) if IS_LONG else (6, 12)


def test_native_scans(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_all, tmp_path)


def check_all(tmp_path: Path) -> None:
    """Everything in one session."""
    lake, spark = shoal.create(tmp_path / "lake"), shoal.spark.session()
    generated_pools_are_equal(lake, spark)
    every_type_is_equal(lake, spark)
    columns_and_counts_are_read_alone(lake, spark)
    old_commits_and_views_are_read(lake, spark)
    times_are_never_cut_off(lake, spark)
    damage_is_found(lake, spark, tmp_path)
    what_spark_cannot_read_is_left_to_the_source(lake, spark)


def native(lake: Lake, spark: Any, pool: str, **options: str) -> Any:
    """A pool, read by Spark itself: the plan has its reader in it."""
    frame = spark.read.format("shoal").option("lake", lake.uri).options(**options).load(pool)
    assert is_native(frame), pool
    return frame


def is_native(frame: Any) -> bool:
    return "FileScan parquet" in plan_of(frame)


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString()) + str(
        frame._jdf.queryExecution().executedPlan().toString()
    )


def by_source(lake: Lake, spark: Any, pool: str, **options: str) -> Any:
    frame = spark.read.format("shoal").option("lake", lake.uri).option("tasks", "2").options(**options).load(pool)
    assert not is_native(frame)
    return frame


def rows(frame: Any) -> list[str]:
    return sorted(map(repr, frame.collect()))


SCALARS = (
    "1",
    "-7(int8)",
    "200(uint8)",
    "18446744073709551615(uint64)",
    "2.5",
    "0.25(float32)",
    '"text"',
    "true",
    "2024-05-01T10:00:00.123456Z",
    "10.0.0.1",
    "1.50(decimal(5,2))",
    "2024-05-01",
    "90s",
    "0x00ff",
    "%a(enum(a,b))",
    "null(string)",
    "null",
    'error("bad")',
)
MORE = ("[]", "[1,2]", '["x",null(string)]', "|[3,4]|", '|{"k":1}|', "[10.0.0.1]", "[{x:1},{x:2}]", "1((int64,string))")


def records(dice: random.Random, count: int) -> bytes:
    """Records with fields of several types. A field has records or other values, never both."""
    kinds = {name: dice.sample((*SCALARS, *MORE), dice.randint(1, 3)) for name in "abcd"}
    rows_ = []
    for _ in range(count):
        fields = [f"{name}:{dice.choice(kinds[name])}" for name in "abcd" if dice.random() < 0.8]
        inner = [f"{name}:{dice.choice(SCALARS[:7])}" for name in "xyz" if dice.random() < 0.5]
        fields += [dice.choice([f"r:{{{','.join(inner)}}}", f"r:{{deep:{{{','.join(inner)}}}}}", "r:null({x:int64})"])]
        rows_.append("{" + ",".join(fields) + "}")
    return "\n".join(rows_).encode()


def generated_pools_are_equal(lake: Lake, spark: Any) -> None:
    natives = 0
    for seed in range(POOLS):
        pool = lake.create(f"g{seed}", key=("a", "b", "c:desc", "d")[seed % 4])
        dice = random.Random(seed)
        for _ in range(1 + seed % 3):
            pool.load(records(dice, 40))
        frame = spark.read.format("shoal").option("lake", lake.uri).load(f"g{seed}")
        natives += is_native(frame)
        expected = by_source(lake, spark, f"g{seed}")
        assert frame.schema == expected.schema
        assert rows(frame) == rows(expected), seed
        for name in frame.columns[:6]:
            column = "`" + name.replace("`", "``") + "`"
            assert rows(frame.select(column)) == rows(expected.select(column)), (seed, name)
            assert frame.where(f"{column} is null").count() == expected.where(f"{column} is null").count()
    assert natives > POOLS / 2


def every_type_is_equal(lake: Lake, spark: Any) -> None:
    pool = lake.create("types", key="k")
    pool.load(EVERY_TYPE)
    pool.load(b"{k:null,r:null({x:int64})} 5 null({k:int64})")
    pool.load(b'{r:{x:null(int64)}} {e:null({}),a:[]} {tags:[]} {tags:["x"]} {u64:1(uint64),mix:3(uint8)}')
    for times in ("microseconds", "integers"):
        frame, expected = native(lake, spark, "types", times=times), by_source(lake, spark, "types", times=times)
        assert frame.schema == expected.schema
        assert rows(frame) == rows(expected)


def columns_and_counts_are_read_alone(lake: Lake, spark: Any) -> None:
    lake.create("logs", key="k").load([{"k": i, "s": f"s{i % 3}", "n": {"x": i, "y": "z"}} for i in range(1000)])
    frame = native(lake, spark, "logs")
    assert "ReadSchema: struct<k:bigint,s:string>" in plan_of(frame.where("s = 's1'").select("k"))
    assert "PushedFilters: [IsNotNull(s), EqualTo(s,s1)]" in plan_of(frame.where("s = 's1'").select("k"))
    assert "ReadSchema: struct<>" in plan_of(frame.groupBy().count())
    assert frame.count() == 1000
    assert frame.where("n.x < 10").count() == 10
    some = spark.read.format("shoal").schema("s string, k bigint").option("lake", lake.uri).load("logs")
    assert is_native(some)
    assert some.columns == ["s", "k"]
    assert some.where("k = 4").collect() == [("s1", 4)]


def old_commits_and_views_are_read(lake: Lake, spark: Any) -> None:
    pool = lake.pool("logs")
    pool.create_tag("v1")
    frame = native(lake, spark, "logs")
    pool.load([{"k": 5000, "s": "later", "new": True}])
    assert frame.count() == native(lake, spark, "logs@v1").count() == native(lake, spark, "logs", at="v1").count()
    assert native(lake, spark, "logs").where("new").count() == 1
    before = dict(spark.conf.getAll)
    assert "logs" in lake.register(spark)
    view = spark.table("logs")
    assert is_native(view)
    assert view.count() == 1001
    assert is_native(lake.query("from logs").to_spark())
    assert lake.query("from logs | s == 'later'").to_spark().count() == 1
    assert dict(spark.conf.getAll) == before


def times_are_never_cut_off(lake: Lake, spark: Any) -> None:
    lake.create("fine", key="k").load(b"{k:1,r:{t:2024-01-01T00:00:00.000000001Z}}")
    assert native(lake, spark, "fine").select("k").collect() == [(1,)]
    with pytest.raises(Exception, match=r"InvalidInput: column r\.t: a time has digits below .* times=integers\)"):
        native(lake, spark, "fine").collect()
    assert native(lake, spark, "fine", times="integers").select("r.t").collect() == [(1704067200000000001,)]


def damage_is_found(lake: Lake, spark: Any, root: Path) -> None:
    pool = lake.create("damaged", key="k")
    pool.load([{"k": i, "v": "x" * (i % 7)} for i in range(1000)])
    (file,) = (root / "lake" / pool.id / "data").iterdir()
    expected = rows(native(lake, spark, "damaged"))
    whole, dice = file.read_bytes(), random.Random(DAMAGES)
    for number in range(DAMAGES):
        damage(file, WAYS[number % len(WAYS)], dice)
        try:
            found = rows(native(lake, spark, "damaged"))
        except Exception as e:
            assert not isinstance(e, AssertionError)
        else:
            assert found == expected
        write(file, whole)


def what_spark_cannot_read_is_left_to_the_source(lake: Lake, spark: Any) -> None:
    many = lake.create("many", key="k")
    for i in range(40):
        many.load([{"k": i}])
    small = spark.read.format("shoal").option("lake", lake.uri).load("many")
    assert not is_native(small)
    assert small.count() == 40
    mixed = lake.create("mixed", key="k")
    mixed.load(b'{k:1,v:{a:1}} {k:2,v:"text"}')
    frame = spark.read.format("shoal").option("lake", lake.uri).load("mixed")
    assert rows(frame) == ["Row(k=1, v='{\"a\":1}')", "Row(k=2, v='text')"]
    with pytest.raises(InvalidInput, match="times: 'days' is not one of"):
        native(lake, spark, "logs", times="days")
    other = spark.read.format("shoal").format("csv").schema("k string")
    table = Path(lake.uri.removeprefix("file://")).with_name("table.csv")
    table.write_text("1\n2\n")
    assert rows(other.load(f"file://{table}")) == ["Row(k='1')", "Row(k='2')"]
