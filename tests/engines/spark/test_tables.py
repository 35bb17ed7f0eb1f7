"""Tables of a lake in Spark code: exact columns, lazy frames, the source, its views, and SQL. One session for all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.errors import InvalidInput, NotFound, Unsupported
from shoal.ids import to_text
from shoal.local.lake import LocalLake
from shoal.model.fields import NO_ID
from shoal.planner import spark_dataframes

EVERY_TYPE = b"""
{k:1,u8:255(uint8),u16:65535(uint16),u32:4294967295(uint32),u64:18446744073709551615(uint64),i8:-1(int8),i16:-2(int16),
 i32:-3(int32),f16:1.5(float16),f32:0.25(float32),f64:-0.,b:true,s:"\\u00e9",by:0x00ff,ts:1969-12-31T23:59:59.999999Z,
 d:-1h,ip:10.0.0.1,net:10.0.0.0/8,ty:<{a:int64}>,en:%bar(enum(foo,bar)),a:[1,null(int64)],st:|["y","x"]|,
 m:|{"b":1.5,"a":null(float64)}|,r:{x:1,y:{t:2024-01-01T00:00:00Z}},un:"x"((int64,string)),er:error("bad"),e:{},
 ar:[{ip:::1}],"a.b":1,"q\\"`x":2,K:3,p:80(port=uint16),
 dec:1.10(decimal(10,2)),day:9999-12-31,mix:6}
{k:"two",mix:6.5,r:{z:[2024-01-01T00:00:00Z]},extra:null(string)}
"""
SCHEMA = (
    "struct<k:string,u8:smallint,u16:int,u32:bigint,u64:decimal(20,0),i8:tinyint,i16:smallint,i32:int,"
    "f16:float,f32:float,f64:double,b:boolean,s:string,by:binary,ts:timestamp,d:bigint,ip:string,net:string,ty:string,"
    "en:string,a:array<bigint>,st:array<string>,m:map<string,double>,"
    "r:struct<x:bigint,y:struct<t:timestamp>,z:array<timestamp>>,un:string,er:string,e:boolean,"
    'ar:array<struct<ip:string>>,a.b:bigint,q"`x:bigint,K$2:bigint,p:int,dec:decimal(10,2),day:date,mix:double,extra:string>'
)


def test_tables_in_spark_code(shared_session: SharedSession, tmp_path: Path) -> None:
    shared_session.run(check_all, tmp_path)


class Recorder:
    """A reader of Spark that loads nothing, and remembers at which commits it was asked for pools."""

    def __init__(self, on_load: Callable[[], None]) -> None:
        self.read, self.commits = self, dict[str, str]()
        self._on_load, self._given = on_load, dict[str, str]()

    def format(self, name: str) -> Recorder:
        return self

    def option(self, name: str, value: str) -> Recorder:
        self._given[name] = value
        return self

    def load(self, name: str) -> Recorder:
        self.commits[name] = self._given["at"]
        self._on_load()
        return self

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 - Spark's name for it
        self._on_load()


def test_the_views_of_one_call_are_of_one_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = shoal.create(tmp_path / "lake")
    for name in ("a", "b", "empty"):
        lake.create(name, key="k")

    def meanwhile() -> None:
        with lake.transaction(["a", "b", "empty"]) as t:
            for place in t.places:
                t.load(place, [{"k": 1}])

    with lake.transaction(["a", "b"]) as t:
        for place in t.places:
            t.load(place, [{"k": 0}])
    then = {name: lake.pool(name).resolve() for name in ("a", "b")} | {"empty": to_text(NO_ID)}
    spark = Recorder(meanwhile)
    monkeypatch.setattr(spark_dataframes, "is_on_this_machine", lambda spark: True)
    monkeypatch.setattr(spark_dataframes, "register", lambda spark: None)
    spark_dataframes.make_views(spark, lake.uri, ["a", "b", "empty"])
    assert spark.commits == then
    assert lake.pool("empty").resolve(to_text(NO_ID)) is None


def check_all(tmp_path: Path) -> None:
    """Everything in one session."""
    lake = shoal.create(tmp_path / "lake")
    assert isinstance(lake, LocalLake)
    pool = lake.create("n20", key="ts")
    for i in range(20):
        pool.load(f'{{ts:2024-01-{i + 1:02}T00:00:00Z,n:{i},host:"h{i}"}}{{ts:2024-01-{i + 1:02}T12:00:00Z}}'.encode())
    assert lake.query("from n20 | sum(n)", engine="spark").to_zson() == "190"
    from pyspark.sql import SparkSession  # noqa: PLC0415 - in a process of its own

    spark = SparkSession.getActiveSession()
    assert spark is not None
    source_is_known_to_sessions_that_were_started(lake, spark)
    every_type_is_exact(lake, spark)
    frames_are_lazy_and_compose(lake, spark, tmp_path)
    programs_run_in_tasks(lake)
    source_prunes_and_takes_options(lake, spark)
    views_are_tables(lake, spark)
    statements_are_answered(lake)
    frames_are_written(lake, spark)
    what_is_wrong_is_one_line(lake, spark)


def read(lake: LocalLake, spark: Any, **options: str) -> Any:
    return spark.read.format("shoal").option("lake", lake.uri).options(**options)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def source_is_known_to_sessions_that_were_started(lake: LocalLake, spark: Any) -> None:
    assert read(lake, spark).load("n20").where("n is not null").count() == 20


def every_type_is_exact(lake: LocalLake, spark: Any) -> None:
    pool = lake.create("types", key="k")
    pool.load(EVERY_TYPE)
    pool.load(b"{k:null,r:null({x:int64})} 5 null({k:int64})")
    for frame in (lake.query("from types").to_spark(), read(lake, spark).load("types")):
        assert frame.schema.simpleString() == SCHEMA.removesuffix(">") + ",$value:bigint>"
        first = frame.where("k = '1'").collect()[0].asDict(recursive=True)
        nowhere = {name for name, value in first.items() if value is None}
        assert nowhere == {"extra", "$value"}
        assert {name: value for name, value in first.items() if name not in nowhere} == {
            "k": "1", "u8": 255, "u16": 65535, "u32": 4294967295, "u64": Decimal(2**64 - 1), "i8": -1, "i16": -2,
            "i32": -3,
            "f16": 1.5, "f32": 0.25, "f64": 0.0, "b": True, "s": "é", "by": b"\x00\xff",
            "ts": datetime(1969, 12, 31, 23, 59, 59, 999999), "d": -3_600_000_000_000, "ip": "10.0.0.1",
            "net": "10.0.0.0/8", "ty": "<{a:int64}>", "en": "bar", "a": [1, None], "st": ["x", "y"],
            "m": {"a": None, "b": 1.5}, "r": {"x": 1, "y": {"t": datetime(2024, 1, 1)}, "z": None}, "un": "x",
            "er": 'error("bad")', "e": True, "ar": [{"ip": "::1"}], "a.b": 1, 'q"`x': 2, "K$2": 3, "p": 80,
            "dec": Decimal("1.10"), "day": date(9999, 12, 31), "mix": 6.0,
        }  # fmt: skip
        second = frame.where("k = 'two'").collect()[0].asDict(recursive=True)
        assert second["r"] == {"x": None, "y": None, "z": [datetime(2024, 1, 1)]}
        assert frame.where("k is null").count() == 3
        assert frame.selectExpr("avg(mix)", "sum(dec)").collect()[0][:] == (6.25, Decimal("1.10"))
        assert [row["$value"] for row in frame.where("`$value` is not null").collect()] == [5]

    exact = read(lake, spark).schema("`k$int64` bigint, `r.x$int64` bigint").load("types")
    assert rows(exact) == [(1, 1), (None, None), (None, None), (None, None), (None, None)]
    for engine in ("spark", "duckdb"):
        text = 'select * from (select *, "k$int64" as one from types) where one = 1'
        (row,) = lake.sql(text, engine=engine, on_warning=None).to_list()
        assert row["one"] == 1
        assert "k$int64" not in row
        assert row["day"] == date(9999, 12, 31)


def frames_are_lazy_and_compose(lake: LocalLake, spark: Any, root: Path) -> None:
    data = root / "lake" / lake.pool("n20").id / "data"
    aside = data.with_name("aside")
    data.rename(aside)  # whoever reads now fails
    numbers = lake.query("from n20 | where n >= 18 | cut n, host").to_spark()
    assert numbers.schema.simpleString() == "struct<n:bigint,host:string>"
    aside.rename(data)
    words = spark.createDataFrame([(19, "nineteen"), (3, "three")], "n int, word string")
    assert rows(numbers.join(words, "n")) == [(19, "h19", "nineteen")]
    assert rows(numbers.groupBy().sum("n")) == [(37,)]
    lake.pool("n20").load(b'{ts:2024-01-30T00:00:00Z,n:99,host:"later"}')
    assert numbers.count() == 2  # of the commit that was asked
    assert lake.query("from n20 | where n >= 18").to_spark().count() == 3


def programs_run_in_tasks(lake: LocalLake) -> None:
    many = lake.query("from n20 | has(n) | put m:=n*2, even:=n%2==0").to_spark()
    assert many.rdd.getNumPartitions() > 1
    assert many.where("even and n < 4").select("m").collect() == [(0,), (4,)]
    odd = lake.query("from n20 | n < 3 | yield {n, parts:split(host, 'h')}").to_spark()  # not in SQL
    assert rows(odd.selectExpr("n", "parts[1]")) == [(0, "0"), (1, "1"), (2, "2")]
    grouped = lake.query("from n20 | count() by has(n) | sort has").to_spark()
    assert rows(grouped) == [(False, Decimal(20)), (True, Decimal(21))]
    with pytest.raises(InvalidInput, match="a program that loads cannot be a DataFrame"):
        lake.query("from n20 | load n20").to_spark()


def source_prunes_and_takes_options(lake: LocalLake, spark: Any) -> None:
    frame = read(lake, spark, tasks="50").load("n20")
    assert frame.where("n = 7").rdd.getNumPartitions() == frame.rdd.getNumPartitions() == 21
    for condition, count in (
        ("n = 7", 1),
        ("n > 17 and n < 90", 2),
        ("host in ('h3', 'h4')", 2),
        ("ts >= timestamp '2024-01-20' and ts < timestamp '2024-01-21'", 1),
        ("n = 7 or host = 'h1'", 21),
    ):
        pruned = read(lake, spark, tasks="50", prune="true").load("n20").where(condition)
        assert (condition, pruned.rdd.getNumPartitions()) == (condition, count)
        assert count > 1 or pruned.where("n is not null").count() == 1
    lake.pool("n20").create_tag("v1")
    lake.pool("n20").load(b"{n:1000}")
    assert frame.agg({"n": "max"}).collect() == [(99,)]  # of the commit that was loaded
    assert read(lake, spark).load("n20").agg({"n": "max"}).collect() == [(1000,)]
    assert read(lake, spark).load("n20@v1").count() == read(lake, spark, commit="v1").load("n20").count() == 41
    assert rows(read(lake, spark, query="where n > 17 | cut host | head 1").load("n20")) == [("h18",)]
    assert rows(read(lake, spark).schema("host string, n bigint").load("n20").where("n = 3")) == [("h3", 3)]
    integers = read(lake, spark, times="integers").load("n20")
    assert integers.where("n = 0").first()["ts"] == int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 10**9


def views_are_tables(lake: LocalLake, spark: Any) -> None:
    import shoal.spark  # noqa: PLC0415 - not in this process but in the one of the session

    lake.create("odd-name", key="k").load([{"k": 3, "word": "three"}])
    assert shoal.spark.views(spark, lake) == ["n20", "odd-name", "types"]
    text = "select word, host from n20 join `odd-name` on n = k"
    assert rows(spark.sql(text)) == [("three", "h3")]
    other = spark.newSession()
    shoal.spark.register(other)
    assert read(lake, other).load("odd-name").count() == 1
    assert shoal.spark.session() is spark


def statements_are_answered(lake: LocalLake) -> None:
    for text in (
        'select count(*) as n, max(ts) as t, sum(n) as s from "n20@v1" where n < 5',
        "select host, n / 2 as half from n20 where n between 3 and 4 order by n",
        'with a as (select * from n20 where n > 17) select host, word from a left join "odd-name" on k = n order by n',
        "select k, u64, r, m, a, ip, er, mix, dec, day from types where k = '1'",
        "with t0 as (select 1 as x) select t0.x, n from n20, t0 where n = 3",
        "select n as user from n20 where n < 3 order by user",
    ):
        answers = [lake.sql(text, engine=engine).to_zson() for engine in ("duckdb", "spark")]
        assert answers[0] == answers[1] != "", text


def frames_are_written(lake: LocalLake, spark: Any) -> None:
    pool = lake.create("written", key="n")
    rows_ = spark.createDataFrame(
        [(i, Decimal(i), date(2024, 1, 1 + i)) for i in range(4)], "n int, d decimal(9,2), t date"
    )
    target = rows_.write.format("shoal").option("lake", lake.uri)
    target.option("message", "four").mode("append").save("written")
    assert [commit.message for commit in pool.log()] == ["four"]
    assert lake.query("from written").to_zson().splitlines()[1] == "{n:1(int32),d:1.00(decimal(9,2)),t:2024-01-02}"
    target.mode("append").save("written@main")
    assert lake.query("from written | count()").to_list() == [8]
    target.option("where", "n >= 2").mode("overwrite").save("written")
    assert lake.query("from written | count() by n | sort n | yield count").to_list() == [3, 3, 1, 1]
    rows_.where("n = 3").write.format("shoal").option("lake", lake.uri).mode("overwrite").save("written")
    assert lake.query("from written | yield n").to_list() == [3]
    assert len(list(pool.log())) == 4
    rows_.where("n > 9").write.format("shoal").option("lake", lake.uri).mode("append").save("written")
    assert len(list(pool.log())) == 4
    for options, message in (
        ({"where": "n > 1"}, "the option where goes with mode"),
        ({"lake": ""}, "the source shoal has no option lake"),
    ):
        with pytest.raises(Exception, match=message):
            target.options(**options).mode("append").save("written")
    bad = rows_.selectExpr("n", "raise_error('no such row') as x").write.format("shoal").option("lake", lake.uri)
    objects = {path.name for path in Path(lake.uri.removeprefix("file://"), pool.id, "data").iterdir()}
    with pytest.raises(Exception, match="no such row"):
        bad.mode("append").save("written")
    assert {path.name for path in Path(lake.uri.removeprefix("file://"), pool.id, "data").iterdir()} == objects
    assert len(list(pool.log())) == 4


def what_is_wrong_is_one_line(lake: LocalLake, spark: Any) -> None:
    lake.create("fine", key="k").load(b"{k:1,r:{t:2024-01-01T00:00:00.000000001Z}}")
    with pytest.raises(InvalidInput, match=r"^column r\.t: 2024-01-01T00:00:00\.000000001Z has digits below the micro"):
        list(lake.sql("select * from fine", engine="spark"))
    with pytest.raises(Exception, match=r"InvalidInput: column r\.t: .* \(read times as integers.* times=integers\)"):
        lake.query("from fine").to_spark().collect()
    assert rows(lake.query("from fine | yield r").to_spark(times="integers")) == [(1704067200000000001,)]
    with pytest.raises(InvalidInput, match=r"^sql: .*`nope` cannot be resolved\. Did you mean one of .*`host`"):
        lake.sql("select nope, n from n20", engine="spark")
    with pytest.raises(InvalidInput, match=r"^sql: .*cannot be cast"):
        list(lake.sql("select cast(host as int) from n20", engine="spark"))
    for text in ("select user from n20", "select session_user", 'select n, "current_user" from n20'):
        with pytest.raises(InvalidInput, match=r"^sql: (\w+: no table has such a column|\w+ reaches beyond the pools)"):
            lake.sql(text, engine="spark")
    with pytest.raises(InvalidInput, match=r"^sql: input_file_name reaches beyond the pools"):
        lake.sql("select input_file_name() from n20", engine="spark")
    with pytest.raises(NotFound, match=r"^absent: pool not found"):
        lake.sql("select * from absent", engine="spark")
    with pytest.raises(Exception, match="absent: pool not found"):
        read(lake, spark).load("absent")
    with pytest.raises(Exception, match="the source shoal has no option lake"):
        spark.read.format("shoal").load("n20")
    remembered = shoal.create("memory://tables")
    remembered.create("p", key="k").load([{"k": 1}])
    with pytest.raises(Unsupported, match="memory"):
        remembered.query("from p").to_spark()
    with pytest.raises(Unsupported, match="only queries of a lake can run on Spark"):
        shoal.query("yield 1").to_spark()
