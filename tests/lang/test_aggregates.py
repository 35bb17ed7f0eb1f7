from __future__ import annotations

from shoal.engines.interp.engine import run_program
from shoal.lang import plan
from shoal.lang.aggregates import AGGREGATES, is_aggregate, split_aggregates
from shoal.testing.queries import compile_program, parse_values


def test_only_count_goes_without_an_argument() -> None:
    assert [name for name, signature in AGGREGATES.items() if not signature.needs_argument] == ["count"]


def test_other_functions_are_no_aggregates() -> None:
    assert is_aggregate("collect_map")
    assert not is_aggregate("len")


def test_halves_of_an_aggregation_give_the_whole() -> None:
    text = "n:=count(), sum(x), avg(x), collect(x), union(x), dcount(x), any(x), fuse(this) by k, m:=x%2"
    data = parse_values("".join(f"{{k:{i % 3},x:{i}}}" for i in range(30)))
    whole = compile_program(text)
    partial, final = split_aggregates(whole.body[1])  # type: ignore[arg-type]
    partials = [v for i in (0, 10, 20) for v in run_program(plan.Program((partial,)), data[i : i + 10])]
    assert list(run_program(plan.Program((final,)), partials)) == list(run_program(whole, data))
