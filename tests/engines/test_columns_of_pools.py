"""Pools in columns: every value comes back, others read the files, and what cannot match is never opened."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.ids import new, to_text
from shoal.lake import changes, column_form
from shoal.lake.checkpoints import Checkpoints, Item
from shoal.lake.commits import Note
from shoal.lake.objects import Form
from shoal.local.lake import LocalLake, stored
from shoal.model.text import format_value
from shoal.model.values import Value, int64
from shoal.testing import strategies
from shoal.testing.tiers import examples


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(made, LocalLake)
    return made


def data_files(lake: LocalLake, pool: str) -> list[Path]:
    root = Path(lake.root.store.uri.removeprefix("file://"))
    return sorted((root / lake.pool(pool).id / "data").iterdir())


@settings(max_examples=examples(40))
@given(st.lists(strategies.values(), min_size=1, max_size=12), st.sampled_from(["a", "ts:desc", "this"]))
def test_every_value_comes_back_exactly(lake: LocalLake, values: list[Value], key: str) -> None:
    name = f"exact{to_text(new())}"
    lake.create(name, key=key).load(values)
    wanted = Counter(map(format_value, values))
    for engine in ("interp", "duckdb"):
        assert Counter(map(format_value, lake.query(f"from {name}", engine=engine))) == wanted


@settings(max_examples=examples(25))
@given(st.lists(st.lists(strategies.values(), min_size=1, max_size=4), min_size=2, max_size=4))
def test_values_of_several_loads_come_back_exactly(lake: LocalLake, batches: list[list[Value]]) -> None:
    name = f"stable{to_text(new())}"
    pool = lake.create(name, key="a")
    for values in batches:
        pool.load(values)
    expected = Counter(format_value(value) for values in batches for value in values)
    for engine in ("interp", "duckdb"):
        assert Counter(map(format_value, lake.query(f"from {name}", engine=engine))) == expected


LEVELS = (b'{k:1,level:3,r:{x:1}}{k:2,level:"high"}', b'{k:3,level:"low",r:{x:"s",X:1}}', b"{k:4,level:4,r:[{x:1}]}")


@pytest.mark.parametrize("program", ["level=='low'", "count() by typeof(level)", "yield r.x", "level > 3", "fuse"])
def test_columns_whose_names_the_registry_gave_are_queried(lake: LocalLake, program: str) -> None:
    if "levels" not in [pool.name for pool in lake.pools()]:
        lake.create("levels", key="k")
        for values in LEVELS:
            lake.pool("levels").load(values)
    pool = lake.pool("levels")
    assert any(o.names for o in stored(pool).snapshot(stored(pool).resolve()).objects())
    answers = [
        sorted(lake.query(f"from levels | {program}", engine=engine).to_zson().splitlines())
        for engine in ("interp", "duckdb")
    ]
    assert answers[0] == answers[1] != []


def test_files_of_a_pool_read_as_one_relation(lake: LocalLake) -> None:
    pool = lake.create("relation", key="k")
    for values in LEVELS:
        pool.load(values)
    files = [str(path) for path in data_files(lake, "relation")]
    columns = 'k, level, "level$string", "r$array"'
    rows = duckdb.sql(f"SELECT {columns} FROM read_parquet({files}, union_by_name=true) ORDER BY k").fetchall()
    assert rows == [(1, 3, None, None), (2, None, "high", None), (3, None, "low", None), (4, 4, None, [{"x": 1}])]


def test_plain_data_is_plain_parquet(lake: LocalLake) -> None:
    lake.create("plain", key="ts").load([
        {"ts": 2, "level": "info", "took": 1.5, "user": {"name": "ann", "roles": ["a", "b"]}},
        {"ts": 1, "level": "warn", "took": None, "ok": True},
    ])  # fmt: skip
    (file,) = data_files(lake, "plain")
    query = f'SELECT ts, level, took, "user".name, "user".roles, ok FROM \'{file}\''
    assert duckdb.sql(query).fetchall() == [
        (1, "warn", None, None, None, True),
        (2, "info", 1.5, "ann", ["a", "b"], None),
    ]
    table = pq.read_table(file)
    assert table.column_names == ["$shape", "ts", "level", "took", "user", "ok"]
    assert table.column("ts").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "program", ["where f != 1.5", "where f != f", "where !(r.f < 2.)", "yield f > 1.", "count() by f"]
)
def test_a_nan_is_not_lost_where_statistics_do_not_count_it(lake: LocalLake, program: str) -> None:
    if "nan" not in [pool.name for pool in lake.pools()]:
        lake.create("nan", key="k").load(b"{k:1,f:1.5,r:{f:1.}}{k:2,f:NaN,r:{f:NaN}}{k:3,f:1.5,l:[NaN]}")
    answers = [lake.query(f"from nan | {program}", engine=engine).to_zson() for engine in ("interp", "duckdb")]
    assert answers[0] == answers[1] != ""


def test_a_layout_that_would_explode_goes_to_rows_in_the_same_load(lake: LocalLake) -> None:
    plain = [{"k": i, "s": "x"} for i in range(50)]
    wild = [{"k": i, f"key-{i}": i} for i in range(2000)]
    lake.create("wild", key="k").load([*plain, *wild])
    assert {path.suffix for path in data_files(lake, "wild")} == {".parquet", ".zng"}
    for engine in ("interp", "duckdb"):
        assert [v.data for v in lake.query("from wild | k < 50 | count()", engine=engine)] == [100]
    keys = [v.data for v in lake.query("from wild | yield k", engine="interp")]
    assert keys == sorted(keys)
    assert len(keys) == 2050


def test_of_a_thousand_objects_the_one_that_can_match_is_opened(
    lake: LocalLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = lake.create("thousand", key="ts")
    with pool.transaction() as changing:
        for i in range(1000):
            changing.load([{"ts": i, "id": f"id-{i:04}", "n": i % 7}])
    opened: list[str] = []
    check = column_form.checked_file

    def checked(store, prefix, o):  # type: ignore[no-untyped-def]
        opened.append(to_text(o.id))
        return check(store, prefix, o)

    monkeypatch.setattr(column_form, "checked_file", checked)
    for program in (
        'from thousand | id == "id-0777"',
        "from thousand | ts == 777",
        "from thousand | 777 <= ts and ts < 778",
    ):
        opened.clear()
        (found,) = lake.query(program, engine="duckdb")
        assert format_value(found) == '{ts:777,id:"id-0777",n:0}'
        assert len(opened) == 1
        (plan,) = lake.explain(program)
        assert (plan.objects, plan.total) == (1, 1000)
    opened.clear()
    assert len(list(lake.query("from thousand | head 2", engine="duckdb"))) == 2
    assert len(opened) <= 3


def test_the_first_values_of_a_long_history_are_found_without_a_look_at_the_rest(
    lake: LocalLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = lake.create("long", key="ts")
    for i in range(300):
        pool.load([{"ts": i}])
    pages: list[str] = []
    read = Checkpoints._read

    def counted(self: Checkpoints, key: str) -> tuple[Item, ...]:
        pages.append(key)
        return read(self, key)

    monkeypatch.setattr(Checkpoints, "_read", counted)
    (found,) = shoal.open(lake.root.store.uri).query("from long | put n:=ts+1 | head 1")
    assert format_value(found) == "{ts:0,n:1}"
    assert len(pages) <= 2
    (plan,) = lake.explain("from long | put n:=ts+1 | head 1")
    assert (plan.engine, plan.total) == ("interp", 300)


def test_planning_over_ten_thousand_objects_takes_little_longer_than_to_list_them(lake: LocalLake) -> None:
    pool = lake.create("many", key="ts")
    pool.load([{"ts": 1, "id": 5, "name": "x", "at": {"x": 1.5, "y": 2}}, {"ts": 2, "other": True, "id": "text"}])
    inner = stored(pool)
    (one,) = inner.snapshot(inner.resolve()).objects()
    copies = [dataclasses.replace(one, id=new(), min=int64(10 * i), max=int64(10 * i + 9)) for i in range(10_000)]
    inner.committer.commit(changes.load("main", copies, Note("tester", "metadata without data")))
    ratios: list[float] = []
    while len(ratios) < 8 and min(ratios, default=3.0) >= 3.0:
        listing, planning = shoal.open(lake.root.store.uri), shoal.open(lake.root.store.uri)
        began = time.process_time()
        again = stored(listing.pool("many"))
        assert sum(1 for _ in again.snapshot(again.resolve()).objects()) == 10_001
        listed = time.process_time()
        (plan,) = planning.explain("from many | id == 6 and ts >= 20000", engine="interp")
        ratios.append((time.process_time() - listed) / (listed - began))
    assert min(ratios) < 3.0, ratios
    assert (plan.objects, plan.total) == (0, 10_001)
    assert plan.pruning() == "0 of 10001 (10001 pruned: key 2001, zone map 8000)"


def test_rows_and_columns_live_in_one_pool(lake: LocalLake, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = lake.create("both", key="k")
    pool.load([{"k": i, "v": i} for i in range(0, 100, 2)])
    monkeypatch.setattr("shoal.lake.object_writer.MOST_SHAPES", 0)
    pool.load([{"k": i, "v": str(i)} for i in range(1, 100, 2)])
    forms = {o.form for o in stored(pool).snapshot(stored(pool).resolve()).objects()}
    assert forms == {Form.COLUMNS, Form.ROWS}
    for program in (
        "from both",
        "from both | v == 10 or v == '11'",
        "from both | sum(v) by typeof(v)",
        "from both | head 3",
    ):
        right = sorted(map(format_value, lake.query(program, engine="interp")))
        assert sorted(map(format_value, lake.query(program, engine="duckdb"))) == right


@pytest.mark.parametrize(
    "program",
    ["max(a)", "min(a)", "a < 2.5 | count()", "a != 2. | count()", "a > 1. | count()", "sort a", "sort -r a | head 1"],
)
def test_numbers_beside_nan_in_a_file_that_tells_of_numbers_alone(lake: LocalLake, program: str) -> None:
    if not any(pool.name == "nans" for pool in lake.pools()):
        lake.create("nans", key="n").load([{"n": n, "a": a} for n, a in enumerate((math.nan, 2.0, math.nan, 1.5))])
    right = list(lake.query(f"from nans | {program}", engine="interp"))
    assert list(lake.query(f"from nans | {program}", engine="duckdb")) == right
