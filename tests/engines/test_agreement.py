"""Every engine gives what the interpreter gives: on programs by chance over mixed shapes, and on the public cases."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.errors import InvalidInput
from shoal.local.lake import LocalLake
from shoal.testing.agreement import Questions, Rows, difference, is_ordered, outcome
from shoal.testing.conformance import ABSENT, load
from shoal.testing.queries import parse_values
from shoal.testing.tiers import IS_LONG

POOLS = 500 if IS_LONG else 14
QUESTIONS = 40
"""For each pool."""
KEYS = ("a", "ts", "k:desc", "s")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    made = shoal.create(tmp_path_factory.mktemp("lake"))
    assert isinstance(made, LocalLake)
    return made


@pytest.mark.parametrize("seed", range(POOLS))
def test_programs_by_chance(lake: LocalLake, seed: int) -> None:
    pool = lake.create(f"chance{seed}", key=KEYS[seed % len(KEYS)])
    for rows in Rows(seed * 10).loads(1 + seed % 3, 40):
        pool.load(rows)
    lake.create(f"other{seed}", key="id").load(Rows(seed * 10).rows(15))
    for number in range(QUESTIONS):
        program = f"from chance{seed} | {Questions(seed * QUESTIONS + number).question(f'other{seed}')}"
        right = outcome(lambda: lake.query(program, engine="interp"))  # noqa: B023 - called at once
        found = outcome(lambda: lake.query(program, engine="duckdb"))  # noqa: B023
        assert difference(right, found, is_ordered(program)) is None, program


def test_equal_neighbours_of_different_layouts_are_one(lake: LocalLake) -> None:
    """In one load a field is a number or a struct, in the next one always a number; and structs may be null."""
    pool = lake.create("layouts", key="k")
    pool.load(parse_values("{k:1,v:5} {k:1,v:{x:1}} {k:2,v:null({x:int64})} {k:3,v:{x:{y:1}}}"))
    pool.load(parse_values("{k:1,v:5} {k:1,v:5} {k:2,v:7}"))
    pool.load(parse_values("{k:1,v:5} {k:2,v:null({x:int64})} {k:3,v:null({x:{y:int64}})} {k:3,v:{x:{y:1}}}"))
    for program in ("yield {v} | uniq -c", "yield {v} | uniq", "yield v | uniq -c", "sort v | uniq -c", "uniq -c"):
        program = f"from layouts | {program}"
        right, found = (list(lake.query(program, engine=engine)) for engine in ("interp", "duckdb"))
        assert difference(right, found, ordered=True) is None, program


ERRORS = (
    'error("missing")', 'error("quiet")', 'error("bad")', 'error(error("quiet"))', 'error({message:"bad",on:1})',
    "error(1)", "null(error(string))", '[error("quiet")]', '{x:error("quiet")}',
    'error("quiet")(failure=error(string))',
)  # fmt: skip


@pytest.mark.parametrize(
    "program",
    [
        "yield e", "cut e", "cut k, e", "put z:=e", "yield {z:e}", "drop k", "count() by e", "count() by e, k",
        "sum(k) by e", "union(e)", "union(k) by e", "collect(e)", "any(e)", "count(e)", "dcount(e)", "fuse(e)",
        "where has(e)", "where missing(e)", "yield coalesce(e, k)", "yield quiet(e)", "where e == 1",
        "where is_error(e)",
        "sort e", "sort -r e, k", "top 3 e", "yield e | uniq -c", "yield {e} | uniq", "over e", "over [e,k]",
        "yield e, k", "switch e (case 1 => pass default => count())", "fork (=> yield e => cut e)", "rename z:=e",
        "join (from errors) on e=e z:=k", "left join (from errors) on k=k z:=e", "yield e ? 1 : 2", "yield e or true",
        "yield true and e", "yield !e", "yield [e]", "yield |[e,k]|", "yield {...this,z:e}", "yield typeof(e)",
        "yield under(e)", "fuse", "yield this", "head 5", "tail 5", "yield k + e", "yield e in [1,2]", "yield upper(e)",
    ],
)  # fmt: skip
def test_stored_errors_mean_what_the_interpreter_says(lake: LocalLake, program: str) -> None:
    """In a column of its own type, beside others, and as whole rows; over loads of different layouts."""
    if "errors" not in [pool.name for pool in lake.pools()]:
        pool = lake.create("errors", key="k")
        for start in (0, 1):
            rows = [f"{{k:{k},e:{error}}}" for k, error in enumerate(ERRORS[start:])] + list(ERRORS[start::2])
            pool.load(parse_values(" ".join([*rows, *(f"{{e:{error},k:{k}.}}" for k, error in enumerate(ERRORS[:3]))])))
    program = f"from errors | {program}"
    right = outcome(lambda: lake.query(program, engine="interp"))
    found = outcome(lambda: lake.query(program, engine="duckdb"))
    assert difference(right, found, is_ordered(program)) is None, program


CASES = [case for case in load("inproc") if case.get("input")]


@pytest.mark.skipif(not CASES, reason=ABSENT)
@pytest.mark.parametrize("part", range(8))
def test_programs_of_the_public_cases(lake: LocalLake, part: int, tmp_path: Path) -> None:
    ran = 0
    for number, case in enumerate(CASES):
        if number % 8 != part:
            continue
        try:
            values = parse_values(case["input"])
            lake.create(f"public{number}", key="ts").load(values)
        except InvalidInput:
            continue  # not ZSON
        program = f"from public{number} | {case['zed']}"
        right = outcome(lambda: lake.query(program, engine="interp"))  # noqa: B023 - called at once
        found = outcome(lambda: lake.query(program, engine="duckdb"))  # noqa: B023
        assert difference(right, found) is None, program
        ran += 1
    assert ran
