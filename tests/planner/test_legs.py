from __future__ import annotations

import pytest

from shoal.engines.interp.engine import run_program
from shoal.lang import plan
from shoal.planner.legs import from_left_side, joined_scans, part_legs
from shoal.testing.queries import compile_program, parse_values


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


@pytest.mark.parametrize("text", ["where a", "yield a, b", "put c:=a", "explode a by string", "over a => (count())"])
def test_row_wise_operators_may_stand_before_the_legs(text: str) -> None:
    op = plan.Filter(plan.This(("a",))) if text.startswith("where") else compile_program(text).body[1]
    fork = plan.Fork(((plan.Head(1),), (plan.Tail(1),)))
    assert part_legs(plan.PoolScan("p", "c"), (op, fork), ()) is not None
