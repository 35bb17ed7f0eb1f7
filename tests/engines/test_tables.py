"""Pools as tables: every value in the columns of its layout, by whichever way, and objects that are left out."""

from __future__ import annotations

import pickle
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.engines.duckdb.sandbox import TableQuery
from shoal.engines.spark.table_tasks import RunFragment
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.plain import DUCKDB, SPARK, SPARK_INTEGERS
from shoal.engines.tables.statements import Condition, Statement
from shoal.errors import InvalidInput, ShoalError, Unsupported
from shoal.ids import new, to_text
from shoal.lake import column_form
from shoal.local.lake import LocalLake
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.planner.execute import Question, compile_question
from shoal.planner.scan_units import PoolTable
from shoal.planner.spark_plan import SparkPlan, plan_pool, plan_program
from shoal.testing import strategies
from shoal.testing.agreement import Questions, Rows
from shoal.testing.tables import plain_row, rows_of, same_text
from shoal.testing.tiers import IS_LONG, examples

POOLS, QUESTIONS = (300, 60) if IS_LONG else (6, 15)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(made, LocalLake)
    return made


def table_of(lake: LocalLake, name: str, style: object = SPARK_INTEGERS) -> PoolTable:
    pool = lake.root.pool(name)
    return PoolTable(pool, pool.resolve(), style)  # type: ignore[arg-type]


def by_duckdb(lake: LocalLake, name: str) -> Counter[str]:
    table = table_of(lake, name, DUCKDB)
    batches = TableQuery(Statement("from p"), [(table.form, table.sources(table.prune(())))]).run()
    return Counter(same_text(row) for row in rows_of(batches))


def by_tasks(plan: SparkPlan) -> Counter[str]:
    """What tasks give, after the way that they go to other processes."""
    sent = SparkPlan.from_text(plan.to_text())
    tasks = [pickle.loads(pickle.dumps(task)) for task in sent.tasks]
    return Counter(same_text(row) for task in tasks for row in rows_of(task.batches()))


def expected(form: TableForm, values: list[Value]) -> Counter[str]:
    return Counter(same_text(plain_row(form, value)) for value in values)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.lists(strategies.values(), min_size=1, max_size=6), min_size=1, max_size=3))
def test_every_value_is_in_the_column_of_its_field(lake: LocalLake, loads: list[list[Value]]) -> None:
    name = f"exact{to_text(new())}"
    pool = lake.create(name, key="a")
    for values in loads:
        pool.load(values)
    table = table_of(lake, name)
    try:
        found = by_tasks(plan_pool(table, (), None, 2))
    except InvalidInput as e:
        assert "null for a key" in str(e) or "out of the range of times" in str(e)
        return
    wanted = expected(table.form, [value for values in loads for value in values])
    assert found == wanted
    assert by_duckdb(lake, name) == wanted


ROW_WISE = ("has(k)", "put z:=1", "cut k, s | drop s")
"""What tasks do whatever the data is."""


@pytest.mark.parametrize("seed", range(POOLS))
def test_rows_and_programs_by_chance(lake: LocalLake, seed: int) -> None:
    name = f"chance{seed}"
    pool = lake.create(name, key=("a", "ts", "k:desc", "s")[seed % 4])
    values = [row for part in range(1 + seed % 3) for row in Rows(seed * 10 + part).rows(30)]
    for part in range(0, len(values), 30):
        pool.load(values[part : part + 30])
    wanted = expected(table_of(lake, name).form, values)
    assert by_tasks(plan_pool(table_of(lake, name), (), None, 3)) == wanted
    assert by_duckdb(lake, name) == wanted
    in_tasks = 0
    chance = [Questions(seed * QUESTIONS + number).question(name) for number in range(QUESTIONS)]
    for question in [*ROW_WISE, *chance]:
        text = f"from {name} | {question}"
        try:
            program = compile_question(lake.root, Question(text))
            plan = plan_program(lake.root, Question(text), program, SPARK_INTEGERS, 3)
            right = list(lake.query(text, engine="interp"))
        except ShoalError:
            continue  # not a valid program
        if any(word in text for word in ("sum(", "avg(", "union(", "dcount(")):
            continue  # floats that are added up in another order, and sets of any order
        in_tasks += isinstance(plan.tasks[0], RunFragment) if plan.tasks else 0
        assert by_tasks(plan) == expected(plan.form, right), text
    assert in_tasks >= len(ROW_WISE)


def test_columns_that_are_not_wanted_are_not_there(lake: LocalLake) -> None:
    lake.create("some", key="k").load([{"k": 1, "r": {"x": 1}, "s": "a"}, {"k": "b", "r": 5}])
    table = table_of(lake, "some")
    for names, columns in (({"k"}, ["k"]), ({"r", "k$string"}, ["r", "k$string"]), (set(), ["$value"])):
        plan = plan_pool(table, (), frozenset(names), 2)
        assert plan.form.schema.names == columns
        assert sum(batch.num_rows for task in plan.tasks for batch in task.batches()) == 2


def test_a_filter_that_leaves_nothing_takes_no_column_away(lake: LocalLake) -> None:
    lake.create("none", key="k").load([{"k": 1, "s": "a"}])
    question = Question("from none | where k > 99 | cut s")
    plan = plan_program(lake.root, question, compile_question(lake.root, question), SPARK, 2)
    assert (plan.form.schema.names, plan.tasks) == (["s"], ())


def test_a_pool_without_columns_has_one_that_is_null(lake: LocalLake) -> None:
    lake.create("bare", key="k")
    assert table_of(lake, "bare").form.schema.names == ["$value"]
    assert list(lake.sql("select * from bare")) == []
    lake.pool("bare").load(b"{} {} null")
    assert lake.sql('select count(*) as n, count("$value") as v from bare').to_zson() == "{n:3,v:0}"


def test_a_time_with_finer_digits_than_sparks_is_an_error_that_names_the_column(lake: LocalLake) -> None:
    lake.create("fine", key="k").load(b"{k:1,r:{t:2024-01-01T00:00:00.000000001Z}}")
    (task,) = plan_pool(table_of(lake, "fine", SPARK), (), None, 1).tasks
    with pytest.raises(
        InvalidInput, match=r"column r\.t: 2024-01-01T00:00:00\.000000001Z has digits .* times=integers"
    ):
        list(task.batches())
    assert lake.sql("select r.t from fine").to_zson() == "{t:2024-01-01T00:00:00.000000001Z}"


def test_a_map_with_a_null_for_a_key_is_an_error_that_names_the_column(lake: LocalLake) -> None:
    lake.create("keys", key="k").load(b"{k:1,m:|{null(string):1}|}")
    with pytest.raises(InvalidInput, match="column m: a map has a null for a key"):
        list(lake.sql("select m from keys"))
    assert lake.sql("select k from keys").to_zson() == "{k:1}"


def test_more_columns_than_a_table_may_have_are_refused(lake: LocalLake) -> None:
    shape = t.record((f"c{i}", t.INT64) for i in range(10_001))
    with pytest.raises(Unsupported, match="10001 columns are more than the 10000 that a table may have"):
        TableForm((shape,), SPARK)


def test_objects_that_do_not_list_their_shapes_are_in_the_table(lake: LocalLake) -> None:
    lake.create("wild", key="k").load([*({"k": i} for i in range(5)), *({"k": i, f"key-{i}": i} for i in range(2000))])
    assert lake.sql('select count(*) as n, sum(k) as s, max("key-1999") as m from wild').to_zson() == (
        f"{{n:2005,s:{10 + 1999 * 1000},m:1999}}"
    )


def test_purged_objects_are_left_out_with_a_warning(lake: LocalLake) -> None:
    pool = lake.create("purged", key="k")
    pool.load([{"k": 1, "gone": 1}])
    (info,) = pool.objects()
    before = pool.load([{"k": 2}])
    pool.delete([info.id])
    pool.purge([info.id])
    told: list[str] = []
    text = f'select k, gone from "purged@{before}"'
    assert lake.sql(text, on_warning=told.append).to_zson() == "{k:2,gone:null(int64)}"
    assert len(told) == 1
    assert info.id in told[0]


# ---- pruning


CONDITIONS = [
    (("n",), "=", 7, 1), (("n",), ">", 17, 2), (("n",), "<=", 0, 1), (("n",), "in", (3, 4), 2), (("n",), ">", 18.5, 2),
    (("ts",), "<", "2024-01-02", 2), (("ts",), ">=", "2024-01-20T00:00:00Z", 1), (("host",), "=", "h5", 1),
    (("r", "x"), "=", 3.0, 1), (("N",), "=", 7, 1), (("addr",), "=", "10.0.0.4", 1), (("f",), "<", 0.5, 1),
    (("f",), ">", 18.0, 20), (("took",), ">", 18_500_000_000, 1), (("nope",), "=", 1, 20), (("host",), "=", 5, 20),
    (("ts",), "<", "yesterday", 20), (("n",), "=", "7", 20), (("n",), "=", 2**60, 20),
]  # fmt: skip


@pytest.mark.parametrize("column, op, value, kept", CONDITIONS)
def test_conditions_leave_out_objects(
    lake: LocalLake, column: tuple[str, ...], op: str, value: object, kept: int
) -> None:
    if "twenty" not in [pool.name for pool in lake.pools()]:
        pool = lake.create("twenty", key="ts")
        for i in range(20):
            start = f'{{ts:2024-01-{i + 1:02}T00:00:00Z,n:{i},host:"h{i}",r:{{x:{i}}},addr:10.0.0.{i},'
            pool.load(f"{start}f:{i}.,took:{i}s}}".encode())
    pruned = table_of(lake, "twenty", DUCKDB).prune([Condition(column, op, value)])  # type: ignore[arg-type]
    assert len(pruned.objects) == kept


def test_a_nan_is_greater_than_all_and_is_found(lake: LocalLake) -> None:
    pool = lake.create("nan", key="k")
    pool.load(b"{k:1,f:1.}{k:2,f:NaN}")
    assert lake.sql("select k from nan where f > 100").to_zson() == "{k:2}"


OPS = ("=", "<", "<=", ">", ">=")
CONSTANTS = ("1", "-7", "2.5", "0.1", "'x'", "'foo'", "'2020-01-01'", "9223372036854775807", "'10.0.0.1'")


@pytest.mark.parametrize("seed", range(200 if IS_LONG else 3))
def test_pruning_changes_no_answer(lake: LocalLake, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"pruned{seed}"
    pool = lake.create(name, key=("a", "ts", "k:desc", "s")[seed % 4])
    for part in range(4):
        pool.load(Rows(seed * 100 + part).rows(6))
    dice = random.Random(seed)
    names = table_of(lake, name, DUCKDB).form.schema.names
    for _ in range(25):
        column = '"' + dice.choice(names).replace('"', '""') + '"'
        text = f"select count(*) as n from {name} where {column} {dice.choice(OPS)} {dice.choice(CONSTANTS)}"
        assert answer(lake, text) == answer(lake, text, monkeypatch), text


def answer(lake: LocalLake, text: str, unpruned: pytest.MonkeyPatch | None = None) -> str:
    with (unpruned or pytest.MonkeyPatch()).context() as patch:
        if unpruned is not None:
            patch.setattr("shoal.planner.scan_units.condition_of", lambda form, conditions: None)
        try:
            return ", ".join(format_value(value) for value in lake.sql(text))
        except InvalidInput:
            return "no such comparison"


def test_a_where_reads_the_objects_that_may_match(lake: LocalLake, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = lake.create("counted", key="ts")
    with pool.transaction() as changing:
        for i in range(100):
            changing.load([{"ts": i, "id": f"id-{i:03}"}])
    opened: list[str] = []
    real = column_form.checked_file

    def checked(store, prefix, o):  # type: ignore[no-untyped-def]
        opened.append(to_text(o.id))
        return real(store, prefix, o)

    monkeypatch.setattr("shoal.lake.column_form.checked_file", checked)
    for text, count in (
        ("select id from counted where ts = 77", 1),
        (
            "select c.id from counted c join counted d on c.ts = d.ts where c.id = 'id-077' and d.ts between 76 and 78",
            4,
        ),
        ("with x as (select * from counted where 98 <= ts) select * from x", 2),
        ("select id from counted where ts = 1 or ts = 2", 100),
        ("select (select max(id) from counted where ts < 3) from counted where ts > 97", 5),
        ("describe counted", 100),
    ):
        opened.clear()
        list(lake.sql(text))
        assert len(opened) == count, text
