"""Values that grow on the columnar engines: what DuckDB does not count is left to the interpreter, which does."""

from __future__ import annotations

import pytest

from shoal.access.limits import Limits, limited
from shoal.engines.stopping import Stop
from shoal.errors import Stopped
from shoal.local.lake import LocalLake, create_local
from shoal.model.text import format_value
from shoal.testing.queries import asked_under

ROWS = 3000
MEMORY = 128 << 20
GROWING = [
    "put t:=s+s" + " | put t:=t+t" * 12,
    "put t:=upper(s+s)" + " | put t:=upper(t+t)" * 12,
    "put t:=hex(bytes(s))" + " | put t:=hex(bytes(t))" * 8,
    "put t:=[s]" + " | put t:=[t,t]" * 16,
    "func f(x): (x+x) put t:=" + "f(" * 14 + "s" + ")" * 14,
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    lake = create_local(str(tmp_path_factory.mktemp("growth") / "lake"))
    lake.create("logs", key="ts").load([{"ts": i, "s": "x" * 1000 + str(i)} for i in range(ROWS)])
    return lake


def run(lake: LocalLake, program: str, seconds: float) -> list[str]:
    stop = Stop()
    limits = Limits(seconds, memory=MEMORY)
    results = limited(limits, stop, lambda: asked_under(stop, lake.query, program, engine="duckdb"))
    return [format_value(value) for value in results]


@pytest.mark.parametrize("growth", GROWING)
def test_a_value_that_grows_ends_the_query(lake: LocalLake, growth: str) -> None:
    functions, _, rest = growth.rpartition(") put ")
    head = f"{functions}) " if functions else ""
    with pytest.raises(Stopped, match="more than"):
        run(lake, f"{head}from logs | {'put ' if functions else ''}{rest} | yield len(string(t))", 60)


def test_a_text_of_many_parts_is_equal_to_that_of_the_interpreter(lake: LocalLake) -> None:
    program = f"from logs | head 3 | yield {'+'.join(['s'] * 40)}"
    assert run(lake, program, 60) == [format_value(value) for value in lake.query(program, engine="interp")]


def test_formulas_of_formulas_compile_in_time(lake: LocalLake) -> None:
    program = "from logs | head 3 | put t:=string(s)" + " | put t:=string([t])" * 12 + " | yield len(t)"
    assert run(lake, program, 20) == [format_value(value) for value in lake.query(program, engine="interp")]
