from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.interp.engine import evaluate, run_program
from shoal.lang import plan
from shoal.lang.analyze import analyze
from shoal.lang.optimize import RULES
from shoal.lang.parser import parse_source
from shoal.lang.rules.joined_scans import from_left_side, joined_scans
from shoal.lang.rules.part_legs import part_legs
from shoal.lang.rules.sequences import rewrite_from_outside
from shoal.lang.rules.split_aggregates import split_aggregates
from shoal.lang.source import Part, Source
from shoal.lang.walk import nodes
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


def test_halves_of_an_aggregation_give_the_whole() -> None:
    text = "n:=count(), sum(x), avg(x), collect(x), union(x), dcount(x), any(x), fuse(this) by k, m:=x%2"
    data = parse_values("".join(f"{{k:{i % 3},x:{i}}}" for i in range(30)))
    whole = compile_program(text)
    partial, final = split_aggregates(whole.body[1])  # type: ignore[arg-type]
    partials = [v for i in (0, 10, 20) for v in run_program(plan.Program((partial,)), data[i : i + 10])]
    assert list(run_program(plan.Program((final,)), partials)) == list(run_program(whole, data))


def test_legs_over_a_scan_are_sequences_of_their_own() -> None:
    scan = plan.PoolScan("p", "c")
    x, y = plan.This(("x",)), plan.This(("y",))
    head = plan.Head(1)
    fork = plan.Fork(((plan.Filter(y), head), (plan.Cut(()),)))
    first = (plan.PoolScan("p", "c", filter=plan.Binary("and", x, y)), head)
    second = (plan.PoolScan("p", "c", filter=x), plan.Cut(()))
    assert part_legs(scan, (plan.Filter(x), fork, plan.Merge(x)), ()) == ((first, second), (plan.Merge(x),))
    assert part_legs(scan, (head, fork), ()) is None
    assert part_legs(scan, (plan.Filter(x),), ()) is None


def test_a_leg_of_a_switch_lets_pass_what_comes_to_its_case() -> None:
    cases = (plan.Case(plan.This(("x",)), (plan.Head(1),)), plan.Case(None, (plan.Head(2),)))
    parted = part_legs(plan.PoolScan("p", "c"), (plan.Switch(None, cases),), ())
    assert parted is not None
    (_, first, head), (_, second, _) = parted[0]
    assert head == plan.Head(1)
    values = parse_values("{x:true} {x:1} {x:error(3)} {y:2}")
    passed = [list(run_program(plan.Program((plan.DefaultScan(), leg)), values)) for leg in (first, second)]
    assert passed == [values[:1], values[1:]]


def test_a_join_of_two_scans_begins_with_the_left_one() -> None:
    left, right, other = (plan.PoolScan(name, "c") for name in "pqr")
    x, head = plan.This(("x",)), plan.Head(1)
    join = plan.Join("inner", x, x, ())
    inner = plan.Fork(((plan.Pass(),), (other,)))
    seq = (plan.Fork(((left, head), (right, inner, join))), join, head)
    begun = from_left_side(seq)
    assert begun == (left, head, plan.Fork(((plan.Pass(),), (right, inner, join))), join, head)
    assert list(joined_scans(begun[1:])) == [right, other]
    assert from_left_side((left, head)) == (left, head)
    assert list(joined_scans((plan.Fork(((right,),)), plan.Merge(x)))) == []


def test_sequences_are_rewritten_from_outside() -> None:
    program = compile_program("fork (=> head 1 => over a => (head 2)) | yield (over b | head 3)")
    seen: list[plan.Seq] = []

    def change(seq: plan.Seq) -> plan.Seq:
        seen.append(seq)
        return (*seq, plan.Pass())

    made = rewrite_from_outside(program, change)
    assert seen[0] == program.body
    assert [seq[0] for seq in seen[1:]] == [plan.Head(1), seen[2][0], plan.Head(2), plan.Head(3)]
    assert isinstance(seen[2][0], plan.Over)
    assert sum(isinstance(node, plan.Pass) for node in nodes(made)) == len(seen) == 5
