"""How operators work; what each means is in `tests/cases/language`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run, StackOverflow
from shoal.errors import InvalidInput
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing.queries import answer, compile_program, parse_values


def test_head_reads_no_more_than_it_needs() -> None:
    read: list[int] = []

    def source() -> object:
        for i, value in enumerate(parse_values("1 2 3 4 5")):
            read.append(i)
            yield value

    assert len(list(run_program(compile_program("head 2"), source()))) == 2  # type: ignore[arg-type]
    assert read == [0, 1]


def test_debug_and_output_go_to_their_channels() -> None:
    seen: list[tuple[str, str]] = []
    run = Run(emit=lambda channel, value: seen.append((channel, format_value(value))))
    values = run_program(compile_program("debug this*10 | fork (=> output side => pass)"), parse_values("1 2"), run)
    assert [format_value(v) for v in values] == ["1", "2"]
    assert sorted(seen) == [("debug", "10"), ("debug", "20"), ("side", "1"), ("side", "2")]


def test_each_output_has_a_channel_of_its_own() -> None:
    seen: list[tuple[str, str]] = []
    run = Run(emit=lambda channel, value: seen.append((channel, format_value(value))))
    program = compile_program("fork (=> where this<3 | output a => yield this*10 | output b => output main)")
    assert [format_value(v) for v in run_program(program, parse_values("1 3"), run)] == ["1", "3"]
    assert sorted(seen) == [("a", "1"), ("b", "10"), ("b", "30")]


def test_endless_recursion_is_an_error_of_its_own() -> None:
    for body in ("f(n+1)", "[f(n+1)]", "map([n], f)", "(over n | f(this))", "n + f(n+1)"):
        with pytest.raises(StackOverflow, match="stack overflow"):
            answer(f"func f(n): ({body}) yield f(this)", "1")


def test_deep_but_finite_recursion_works() -> None:
    assert answer("func f(n): (n==0 ? 0 : 1+f(n-1)) yield f(this)", "9000") == "9000"


def test_a_join_needs_two_inputs() -> None:
    with pytest.raises(InvalidInput, match="join requires two upstream parallel query paths"):
        answer("join on a", "{a:1}")


def test_an_expression_with_many_terms() -> None:
    assert answer("yield " + "+".join(["this"] * 900), "1") == "900"
    assert answer(" or ".join(f"this=={i}" for i in range(3000)), "2999 3000") == "2999"


@pytest.mark.parametrize(
    "program",
    [
        "head 1",
        "fork (=> pass => pass) | head 1",
        "fork (=> pass => pass) | merge this | head 1",
        "switch (case true => pass) | head 1",
    ],
)
def test_an_input_is_closed_when_no_more_is_wanted_of_it(program: str) -> None:
    closed: list[bool] = []

    def source() -> Iterator[Value]:
        try:
            yield from parse_values("1 2 3 4 5")
        finally:
            closed.append(True)

    gc.disable()
    try:
        assert len(list(run_program(compile_program(program), source()))) == 1
        early = run_program(compile_program(program.removesuffix(" | head 1")), source())
        next(early)
        early.close()  # type: ignore[attr-defined]
        assert closed == [True, True]
    finally:
        gc.enable()


def test_a_long_pipeline_runs_and_a_longer_one_is_refused() -> None:
    assert answer(" | ".join(["yield this"] * 900), "1") == "1"
    with pytest.raises(InvalidInput, match="more than 1000 operators"):
        answer(" | ".join(["yield this"] * 1001), "1")


def test_a_plan_can_be_run_again_and_side_by_side() -> None:
    program = compile_program("put n:=count() | fork (=> count() => tail 1) | sort this")
    values = parse_values("{a:1}{a:2}")
    pairs = list(zip(run_program(program, values), run_program(program, values), strict=True))
    assert [format_value(a) for a, _ in pairs] == ["2(uint64)", "{a:2,n:2(uint64)}"]
    assert all(a == b for a, b in pairs)
