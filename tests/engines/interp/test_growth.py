"""The sizes of values that programs make: every function is tried with large arguments of every kind."""

from __future__ import annotations

import itertools
import tracemalloc
from contextlib import suppress
from threading import Timer

import pytest

from shoal.api.options import Memory
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Env, Run
from shoal.engines.interp.functions.table import FUNCTIONS
from shoal.engines.interp.growth import FREE_COPIES, KEEPS_SIZE, copies
from shoal.engines.interp.operators.compiler import Compiler
from shoal.engines.interp.spill import SpillFile, Workspace
from shoal.engines.stopping import Stop
from shoal.errors import Stopped
from shoal.lang import plan
from shoal.lang.functions import SIGNATURES
from shoal.model import types as t
from shoal.model.extent import TooLarge, size_of
from shoal.model.parse import parse_value
from shoal.model.values import NULL, Value, string
from shoal.testing.queries import answer, compile_program

LIMIT = 1 << 14
MOST = 24 * LIMIT + 100_000
"""What a call may take beside its arguments."""
LONG = LIMIT // 2


def _large_values() -> list[Value]:
    wide = t.record((f"f{i}", t.INT64) for i in range(200))
    empty = t.record([("f0", t.INT64)])
    distinct = "".join(map(chr, range(0x4E00, 0x4E00 + LONG // 4)))
    return [
        Value(t.STRING, "a" * LONG),
        Value(t.STRING, "(" * 100 + ".*" + ")" * 100),
        Value(t.STRING, "$1" * (LONG // 2)),
        Value(t.STRING, "a"),
        Value(t.STRING, "%c" * (LONG // 2)),
        Value(t.STRING, "\u0436" * (LONG // 2)),
        Value(t.STRING, distinct),
        Value(t.STRING, "[" + "1," * (LONG // 2 - 1) + "1]"),
        Value(t.STRING, ""),
        Value(t.BYTES, b"\xff" * LONG),
        Value(t.array(t.STRING), ("abc",) * (LONG // 64)),
        Value(t.array(empty), ((1,),) * (LONG // 96)),
        Value(t.array(t.array(t.INT64)), ((1, 2, 3),) * (LONG // 160)),
        Value(wide, tuple(range(200))),
        Value(wide, None),
        Value(t.TYPE, wide),
        Value(t.TYPE, t.array(wide)),
        Value(t.TYPE, t.STRING),
        parse_value("2024-01-01T00:00:00Z"),
        parse_value("1"),
    ]


VALUES = _large_values()


@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS if SIGNATURES[name].max_args != 0))
def test_no_function_makes_more_than_the_limit_allows(name: str) -> None:
    compiler = Compiler(plan.Program(()))
    signature = SIGNATURES[name]
    least = signature.min_args + (signature.default is not None)
    for count in range(max(least, 1), min(signature.max_args or 2, 3) + 1):
        palette = VALUES if count < 3 else VALUES[:4]
        for arguments in itertools.product(palette, repeat=count):
            compute = compiler.exprs.expr(plan.Call(name, tuple(plan.Literal(value) for value in arguments)))
            _try(name, compute, arguments)


def _try(name: str, compute: object, arguments: tuple[Value, ...]) -> None:
    stop = Stop()
    stop.memory = LIMIT
    timer = Timer(0.05, stop.stop, [Stopped("the test waits no longer")])
    timer.start()
    env = Env(Run(memory=Memory(value=LIMIT), stop=stop))
    tracemalloc.start()
    try:
        with suppress(Stopped):
            value = compute(NULL, env)  # type: ignore[operator]
            largest = max(size_of(argument) + size_of(Value(t.TYPE, argument.type)) for argument in arguments)
            assert size_of(value) <= (largest + 1000 if name in KEEPS_SIZE else LIMIT)
        assert tracemalloc.get_traced_memory()[1] < MOST, [str(a.data)[:20] for a in arguments]
    finally:
        tracemalloc.stop()
        timer.cancel()


COPIES = {
    "pass": 1,
    "cut a,b,c": 1,
    "yield {a,b,c:{d,e}}": 1,
    "put x:=a | put y:=b": 4,
    "put x:=a,y:=b,z:=1": 2,
    "yield {a:this,b:this}": 2,
    "yield {a:this,b:this.x,c:x}": 3,
    "yield [this,this,this] | yield {a:this,b:[this]}": 6,
    "fork (=> yield {a:this,b:this} => pass) | put c:=this": 4,
    "over a with b,c => (yield {b,c,this})": 6,
    "a:=any(this),b:=max(x) by key": 2,
    "func f(x): ({x,y:x}) yield f(this)": float("inf"),
}


@pytest.mark.parametrize("program", COPIES)
def test_how_often_a_program_copies_its_input(program: str) -> None:
    assert copies(compile_program(program)) == COPIES[program]


def test_records_are_measured_in_programs_that_copy_much() -> None:
    doubling = "yield {a:this,b:this} | "
    text, memory = f'"{"x" * 100_000}"', Memory(value=1 << 20)
    assert answer(doubling * (FREE_COPIES.bit_length() - 1) + "count()", text, memory) == "1(uint64)"
    with pytest.raises(TooLarge, match="value too large: it takes more than 1 MiB"):
        answer(doubling * FREE_COPIES.bit_length() + "count()", text, memory)


MULTIPLYING = [
    "fork (=> pass => pass)",
    "switch (case true => pass)",
    "yield this, this",
    "over [this,this]",
    "explode this by int64",
]


@pytest.mark.parametrize("program", MULTIPLYING)
def test_what_multiplies_values_looks_at_the_stop(program: str) -> None:
    stop = Stop()
    run = Run(stop=stop, emit=lambda channel, value: stop.stop(Stopped("by a test")))
    results: list[Value] | None = None
    with suppress(Stopped):
        results = list(run_program(compile_program(f"debug this | {program}"), [parse_value("1")], run))
    assert results is None


def test_temporary_files_have_a_limit() -> None:
    stop = Stop()
    stop.memory = 1 << 10
    workspace = Workspace(stop)
    try:
        file = SpillFile(workspace, [string("x" * 10_000)]).seal()
        file.remove()
        with pytest.raises(Stopped, match="more than 0 MiB of temporary files"):
            SpillFile(workspace, [string("x" * 20_000)]).seal()
    finally:
        workspace.close()


def test_what_is_written_to_temporary_files_waits_in_small_blocks() -> None:
    workspace = Workspace()
    try:
        file = SpillFile(workspace, [string("x" * 300_000)] * 10)
        assert len(file._rows) < 5
        assert [len(value.data) for value in file] == [300_000] * 10
    finally:
        workspace.close()
