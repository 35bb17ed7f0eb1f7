"""No program crashes or hangs: an answer or a typed error, within two seconds."""

from __future__ import annotations

import signal
from itertools import islice

import pytest

from shoal.api.options import Memory
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.errors import ShoalError
from shoal.lang.parser import parse
from shoal.lang.printer import print_program
from shoal.lang.source import ProgramError
from shoal.model.text import format_value
from shoal.testing.programs import Programs
from shoal.testing.queries import compile_program, load_cases, parse_values
from shoal.testing.samples import every_kind

SECONDS = 2.0
"""Of the processor: other tests run beside these."""
BATCHES, BATCH = 20, 250
DATA = (
    parse_values(
        '{a:1,b:"x",k:1,n:2.5,s:"foo",r:{x:1,y:"z"},ts:2020-01-01T00:00:00Z,list:[1,2,3]}'
        '{a:null,b:[1,"x"],k:"1",n:1s,s:"10.0.0.1",r:null({x:int64}),list:|[1]|}'
        '{a:{q:1},s:error("bad"),list:|{"k":1}|} 1 "x" [1,[2]] null'
    )
    + every_kind()[::7]
)
TINY = Memory(sort=2000, aggregate=5000, fuse=2000, groups=3)


class TooLong(BaseException):
    """Not an Exception, so that nothing catches it."""


def too_long(*_: object) -> None:
    raise TooLong


def outcome(program: str) -> str:
    """What a program does: `answer`, or the kind of error that it ends with."""
    old = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        for value in islice(run_program(compile_program(program), DATA, Run(memory=TINY)), 1000):
            format_value(value)
    except ShoalError as e:
        assert str(e)
        return e.kind
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    return "answer"


@pytest.mark.parametrize("batch", range(BATCHES // 2))
def test_generated_programs(batch: int) -> None:
    outcomes = []
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        program = Programs(seed).program()
        try:
            outcomes.append(outcome(program))
        except BaseException as e:
            raise AssertionError(f"seed {seed}: {program}") from e
    assert outcomes.count("answer") > BATCH / 3


@pytest.mark.parametrize("batch", range(BATCHES // 2))
def test_damaged_programs(batch: int) -> None:
    whole = [case.program for case in load_cases("language")]
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        programs = Programs(seed)
        program = programs.damaged(whole[seed % len(whole)] if seed % 2 else programs.program())
        try:
            outcome(program)
        except BaseException as e:
            raise AssertionError(f"seed {seed}: {program!r}") from e


def test_generated_programs_print_and_read_back() -> None:
    read = 0
    for seed in range(500):
        try:
            text = print_program(parse(Programs(seed).program()))
        except ProgramError:
            continue
        assert print_program(parse(text)) == text, seed
        read += 1
    assert read > 450


HOSTILE = [
    "yield " + "9" * 100_000,
    "yield 0x" + "ab" * 100_000,
    "yield 1" + "0" * 300 + ".",
    "yield 1e" + "9" * 300,
    "yield .1e999999999",
    "yield 99999999999999999y",
    "yield " + "1y" * 5000,
    "yield 9999-99-99T99:99:99Z",
    "yield '" + "x" * 200_000 + "'",
    "yield /" + "(a|" * 5000 + "/",
    "this ~ /" + "(a*)*" * 200 + "b/",
    "this ~ /a{1000}{1000}/",
    "this ~ /((((a{100}){100}){100}){100})/",
    "yield regexp('(' + this, 'x')",
    "yield grok('%{A}', 'x', 'A %{B}\\nB %{A}')",
    "yield pow(10, 400), pow(-1, 0.5), log(0), sqrt(-1)",
    "yield this/0., 1e308*10., -9223372036854775808/-1",
    "yield ' ' + ' '",
    "func f(n): ({a:f(n+1)}) yield f(1)",
    "func f(n): (n+f(n)+f(n)) yield f(1)",
    "func f(a): (map(a, f)) yield f([[1]])",
    "func f(n): ((over [n] | yield f(this))) yield f(1)",
    "op o(): (fork (=> o())) o()",
    "over [1] => (" * 40 + "pass" + ")" * 40,
    "yield " + "{a:" * 90 + "1" + "}" * 90,
    "type t=" + "[" * 90 + "int64" + "]" * 90 + " yield <t>",
    "cut " + ", ".join(f"f{i}:=this" for i in range(2000)),
    "put " + ", ".join(f"f{i}:=1" for i in range(1000)),
    "fork (" + "=> pass " * 500 + ")",
    "switch (" + "case true => pass " * 500 + ")",
    "head 99999999999999999999",
    "tail 9223372036854775807",
    "top 9223372036854775807 this",
    "sort | head 9223372036854775807",
    "yield 'x'[9223372036854775807:], [1][-9223372036854775808]",
    "yield strftime('" + "%Y" * 10_000 + "', 2020-01-01T00:00:00Z)",
    "yield bucket(2020-01-01T00:00:00Z, 0s), bucket(1, 0)",
    "yield levenshtein('" + "a" * 2000 + "', '" + "b" * 2000 + "')",
    "yield parse_zson('" + "[" * 5000 + "')",
    "yield nest_dotted({\"" + "a." * 2000 + 'b":1})',
    "yield unflatten([{key:[" + ",".join(["'a'"] * 3000) + "],value:1}])",
    "yield replace('" + "a" * 1000 + "', 'a', '" + "b" * 1000 + "')",
    "const x=[1] " + "".join(f"const x{i}=[...x,...x] " for i in range(50)) + "yield x49",
    "\x00", "\\", "\ud800",
    "'\\ud800'", "'\\u{d800}'", "|", "=>", "((((", "f\"{f\"{f\"{1}\"}\"}\"", "...", "<>", "/", "//", "/*",
]  # fmt: skip


@pytest.mark.parametrize("program", HOSTILE, ids=lambda text: repr(text[:40]))
def test_hostile_programs(program: str) -> None:
    outcome(program)


GROWING = [
    "func f(s): (f(s+s)) yield f('xxxxxxxx')",
    "func f(s): (f(replace(s, 'x', 'xx'))) yield f('x')",
    "func f(s): (f(join([s,s,s,s,s,s,s,s]))) yield f('xxx')",
    "func f(a): (f([...a,...a])) yield f([1])",
    "func f(a): (f([a,a])) yield f(1)",
    "func f(a): (f({x:[a],y:[a]})) yield f(1)",
    "func f(a): (f(|{1:a,2:a}|)) yield f(1)",
    "const a0=[1,1] " + "".join(f"const a{i}=[a{i - 1},a{i - 1}] " for i in range(1, 60)) + "yield a59",
    "yield [1,1]" + " | yield [this,this]" * 60,
    "yield {a:1}" + " | put b:=this, c:=this" * 40,
]


@pytest.mark.parametrize("program", GROWING, ids=lambda text: repr(text[:40]))
def test_values_that_grow_without_end_are_stopped(program: str) -> None:
    """These take a moment, since what is refused is large; but they end, and not by eating all memory."""
    try:
        for value in run_program(compile_program(program), parse_values("1")):
            format_value(value)
    except ShoalError as e:
        assert str(e)
