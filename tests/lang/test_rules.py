from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.interp.engine import evaluate, run_program
from shoal.lang import plan
from shoal.lang.analyze import analyze
from shoal.lang.compile import RULES
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, Source
from shoal.model.text import format_value
from shoal.testing.queries import compile_program, parse_values
from shoal.testing.strategies import values


def unoptimized(text: str) -> plan.Program:
    source = Source([Part("", text)])
    return analyze(parse_source(source), source, evaluate)


def test_filters_are_joined_and_go_into_the_scan() -> None:
    program = compile_program("where x > 60*60 | where y == 1 | head 1")
    scan, head = program.body
    x, y = plan.This(("x",)), plan.This(("y",))
    hour, one = (plan.Literal(value) for value in parse_values("3600 1"))
    wanted = plan.Binary("and", plan.Binary(">", x, hour), plan.Binary("==", y, one))
    assert scan == plan.DefaultScan(wanted)
    assert head == plan.Head(1)


def test_a_filter_that_counts_stays_where_it_is() -> None:
    body = compile_program("where count() % 2 == 0 | where x").body
    assert [type(op) for op in body] == [plan.DefaultScan, plan.Filter, plan.Filter]


def test_the_head_of_a_sort_needs_no_sort_of_everything() -> None:
    assert [type(op) for op in compile_program("sort a | head 3").body] == [plan.DefaultScan, plan.TopK]
    assert [type(op) for op in compile_program("sort a | head 999999").body][1:] == [plan.Sort, plan.Head]


def test_a_scan_knows_the_fields_that_are_used() -> None:
    def fields(text: str) -> object:
        scan = compile_program(text).body[0]
        assert isinstance(scan, plan.DefaultScan)
        return scan.fields

    assert fields("where a.b==1 | cut c, d:=e.f") == (("a", "b"), ("c",), ("e", "f"))
    assert fields("where a==1 | cut a.b") == (("a",),)
    assert fields("sum(x) by y") == (("x",), ("y",))
    assert fields("count()") == ()
    assert fields("where a==1") is None
    assert fields("foo | cut a") is None
    assert fields("yield this") is None
    assert fields("put a:=b") is None
    assert fields("over a | yield b") is None


def test_a_join_knows_how_its_sides_are_sorted() -> None:
    join = compile_program("sort -r a | join (file b order k) on a=k").body[-1]
    assert isinstance(join, plan.Join)
    assert (join.left_order, join.right_order) == ("desc", "asc")


PROGRAMS = [
    "where a > 1+1 | where b == 'x' or a in [1,2,3] | sort a, b | head 3",
    "where not missing(a) | where a != null | put c:=a | sort -r c | head 2 | cut c",
    "fork (=> where a==1 | where true => sort b | head 1) | sort this",
    "over [this,this] => (where has(a) | where has(b) | head 1)",
    "sort a | where a==1 | tail 2",
]


@given(st.lists(values(), max_size=6), st.sampled_from(PROGRAMS))
def test_no_rule_changes_an_answer(data: list[object], text: str) -> None:
    records = [*data, *parse_values('{a:1,b:"x"}{a:2,b:"y"}{a:3}{b:null}')]
    plain = unoptimized(text)
    expected = [format_value(v) for v in run_program(plain, records)]  # type: ignore[arg-type]
    for rule in RULES:
        found = [format_value(v) for v in run_program(rule(plain), records)]  # type: ignore[arg-type]
        assert found == expected, rule.__name__
