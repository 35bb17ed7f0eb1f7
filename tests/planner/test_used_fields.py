"""A statement reads the fields inside of records that it names, and its answer is that of whole records."""

from __future__ import annotations

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.plain import FRAMES
from shoal.engines.tables.statements import Statement
from shoal.lake.lake import open_at
from shoal.lake.objects import Form
from shoal.model.parse import parse_type
from shoal.model.text import format_type

ROWS = """
{id:1,event:{actor:{name:"ann",Name:"ANN",rank:1},kind:"push",commits:[{sha:"a",size:1},{sha:"b",size:2}]}}
{id:2,event:{actor:{name:"bob",rank:2.5},kind:7,commits:[{sha:"c",size:3}]},note:"x"}
{id:3,event:{actor:"nobody",kind:"open"}}
{id:4,event:null({kind:string})}
{id:5}
"""
STATEMENTS = (
    "select id, event.kind from p order by id",
    "select event.kind, count(*) as n from p group by event.kind order by all",
    "select p.event.actor from p order by id",
    "select e.event.kind from p e where e.event.kind = '7'",
    "select x.kind from (select event as x, id from p) order by id",
    "with c as (select event.commits as commits, id from p) select commits[1].sha from c order by id",
    "select unnest(event.commits).size as s from p order by s",
    "select list_transform(event.commits, c -> c.size) as sizes from p order by id",
    "select event['kind'] as kind from p order by id",
    "select struct_extract(event, 'kind') as kind from p order by id",
    "select (event).kind from p order by id",
    "select event from p order by id",
    "select * from p order by id",
    "select event.* from p order by id",
    "select count(event) as n, count(event.kind) as kinds from p",
    "select id from p where event is null order by id",
    'select "event.kind$int64" as kind from p order by id',
    "select event.kind as event from p order by 1",
)
SHAPE = "{id:int64,a:{b:{c:int64,d:string},e:string,E:int64},f:{g:int64}}"


@pytest.fixture(scope="module", params=[Form.COLUMNS, Form.ROWS])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = shoal.create(tmp_path_factory.mktemp("lakes") / "lake")
    pool = lake.create("p", key="id")
    if request.param is Form.COLUMNS:
        for row in ROWS.strip().splitlines():
            pool.load(row.encode())
    else:  # with records whose keys are data, all become rows
        others = "".join(f'{{id:{10 + i},event:{{kind:"k",x{i}:{i}}},bag{i}:{{y{i}:"{i}"}}}}' for i in range(1500))
        pool.load((ROWS + others).encode())
    stored = open_at(lake.uri).pool("p")
    [main] = stored.refs().branches()
    assert {o.form for o in stored.snapshot(main.commit).objects()} == {request.param}
    return lake


@pytest.mark.parametrize("statement", STATEMENTS)
def test_answers_are_those_of_whole_records(statement: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned = lake.sql(statement).to_list()
    monkeypatch.setattr(Statement, "wholes", None)
    assert pruned == lake.sql(statement).to_list()


def columns(statement: str, *shapes: str) -> list[str]:
    """The columns that a statement reads, with their types."""
    parsed = Statement(statement)
    form = TableForm(tuple(parse_type(shape) for shape in shapes), FRAMES)
    used = form.for_statement(parsed.columns, parsed.companions, parsed.wholes)
    return [f"{column.name} {format_type(column.type)}" for column in used.columns]


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("select a.b.c from t", ["a {b:{c:int64}}"]),
        ("select a.b from t", ["a {b:{c:int64,d:string}}"]),
        ("select t.a.b.c, f.g from t", ["a {b:{c:int64}}", "f {g:int64}"]),
        ("select a.b.c from t where a is not null", ["a {b:{c:int64,d:string},e:string,E:int64}"]),
        ("select f.nothing from t", ["f {g:int64}"]),
        ("select count(*) from t", []),
    ],
)
def test_fields_that_are_not_named_are_not_read(statement: str, read: list[str]) -> None:
    assert columns(statement, SHAPE) == read


def test_a_field_does_not_lose_the_number_in_its_name() -> None:
    """It has one because of another field, whose name differs in case alone."""
    assert columns("select a.e from t", SHAPE) == ["a {e:string}"]
    assert columns('select a."E$2" from t', SHAPE) == ["a {b:{c:int64,d:string},e:string,E:int64}"]
