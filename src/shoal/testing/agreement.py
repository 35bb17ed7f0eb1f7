"""Do engines agree? Rows of mixed shapes and programs over them, by chance, and a comparison of what comes out.

The interpreter is right. Rows come in the order of the pool; groups come in no order, and floats that were added up in
another order may differ in the last digits.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from shoal.api.lake import Lake
from shoal.api.options import Statistics
from shoal.errors import ShoalError
from shoal.ids import new, to_text
from shoal.lang.aggregates import AGGREGATES
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.testing.programs import FIELDS, Programs
from shoal.testing.queries import Case, load_cases, parse_values

_CLOSE = 1e-9
_UNORDERED = ("and", "avg", "count", "dcount", "max", "min", "or", "sum", "union")
"""Aggregates that do not depend on the order of rows."""
_IN_ORDER = frozenset({"fuse", "pass", "head", "sort", "tail", "top", "uniq"})
_IN_NO_ORDER = re.compile(rf"({'|'.join(AGGREGATES)})\(|fork|switch")
_FIELDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "a": (
        ("1", "2", "-7", "0", "9223372036854775807", "null(int64)"),
        ('"x"', '"y"', "null(string)"),
        ("1.5", "2.", "NaN"),
    ),
    "b": (('"foo"', '"Bar baz"', '"K"', '""', '"é"'), ("true", "false", "null(bool)"), ("[1,2]", "[]([int64])")),
    "k": (("1", "2", "3"), ("1(uint8)", "200(uint8)"), ('error("bad")',), ("null",)),
    "n": (
        ("-0.", "0.", "1e300", "Inf", "3.25", "null(float64)"),
        ("5(int32)", "-5(int32)"),
        ("18446744073709551615(uint64)", "3(uint64)"),
    ),
    "s": (
        ('"foo bar"', '"FOO"', '"a b"', '"x"'),
        ('"12"', '"-1.5"', '"2020-01-01"', '"10.0.0.1"', '"99999999999"', '"http://a.b:1/c?d=e"', '" ß "', '"true"'),
        ("80(port=uint16)", "443(port=uint16)"),
        ("0x0aff", "0x", "null(bytes)"),
        ("%a(enum(a,b))", "%b(enum(a,b))"),
    ),
    "ts": (("2020-01-01T00:00:00Z", "2020-01-01T01:30:00.5Z", "1969-12-31T23:59:59Z", "null(time)"), ("1s", "-3h")),
    "list": (
        ("[1,null(int64)]", "[3]([int64])"),
        ('["foo","x"]',),
        ("|[1,2]|",),
        ("|{1:2}|",),
        ("1((int64,string))", '"x"((int64,string))'),
    ),
    "ip": (("10.0.0.1", "::1", "192.168.1.1"), ("10.0.0.0/8",), ("<int64>", "<{a:string}>")),
    "e": (
        ('error("missing")', 'error("quiet")', 'error("bad")', "null(error(string))"),
        ('error("quiet")', '"quiet"', 'error("missing")'),
        ('error({message:"bad",on:1})', 'error({message:"worse",on:2})'),
        ('error(error("quiet"))', 'error(error("missing"))'),
        ("error(1)", "error(null(int64))"),
        ('[error("quiet"),error("bad")]', '[error("missing")]'),
        ('{x:error("quiet")}', '{x:error("missing"),y:1}', "{x:1}"),
        ('error("quiet")(failure=error(string))',),
    ),
}
"""The values of each field, by shape. Every kind of error is stored: those of a text that has a meaning, others, those
of a record, and errors in errors, lists, records and named types."""
_INNER = ("{x:1}", '{x:"foo",y:2}', "null({x:int64})", "{x:null(int64),y:1.5}", "{}", '{y:{z:"deep foo"}}')
_PLAIN = ("1", "2.5", "'x'", "null", "k", "a")
_WHOLE = (
    "1", '"foo"', "null", "{}", "[1,2]", 'error("missing")', "null({a:int64})", "true", "80(port=uint16)",
    'error("quiet")', 'error("bad")', 'error(error("quiet"))', 'error({message:"bad",on:1})',
)  # fmt: skip


class Rows:
    """A source of rows: a few shapes, each with many rows, as in logs; and odd values in between."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def rows(self, count: int, shapes: int = 5) -> list[Value]:
        """Some rows."""
        dice = self._dice
        templates = [self._template() for _ in range(shapes)]
        rows = []
        for _ in range(count):
            if dice.random() < 0.05:
                rows.append(parse_value(dice.choice(_WHOLE)))
                continue
            fields = dice.choice(templates)
            texts = [f"{name}:{dice.choice(choices)}" for name, choices in fields]
            rows.append(parse_value("{" + ",".join(texts) + "}"))
        return rows

    def loads(self, count: int, rows: int) -> list[list[Value]]:
        """Rows of several loads into one pool, each of another layout. A load repeats rows of those before it, of some
        of their shapes, so that equal rows of different layouts come together; it may have shapes of its own.
        """
        dice, loads = self._dice, [self.rows(rows)]
        for _ in range(1, count):
            before = [row for load in loads for row in load]
            shapes = dict.fromkeys(row.type for row in before)
            kept = set(dice.sample(list(shapes), -(-len(shapes) // 2)))
            repeated = dice.choices([row for row in before if row.type in kept], k=rows // 2)
            loads.append(repeated + self.rows(dice.choice((0, rows // 2)), shapes=2))
        return loads

    def _template(self) -> list[tuple[str, tuple[str, ...]]]:
        dice = self._dice
        names = dice.sample(sorted(_FIELDS), dice.randrange(1, 7))
        fields = [(name, dice.choice(_FIELDS[name])) for name in names]
        if dice.random() < 0.5:
            fields.insert(dice.randrange(len(fields) + 1), ("r", (dice.choice(_INNER), dice.choice(_INNER))))
        return fields


_CASTS = (
    "uint8", "int16", "uint32", "int64", "uint64", "float32", "float64", "bool", "string", "bytes", "time",
    "duration", "ip", "net", "type", "port",
)  # fmt: skip
_OF_ONE = (
    "upper", "lower", "trim", "len", "rune_len", "hex", "base64", "parse_uri", "network_of", "abs", "ceil", "floor",
    "round", "log", "sqrt", "is_error", "has_error", "join", "every",
)  # fmt: skip
_OF_MORE = (
    "strftime('%Y-%j %H', {})", "bucket({}, 1h)", "bucket(time({}), 90s)", "cidr_match(10.0.0.0/8, {})",
    "network_of({}, 16)", "network_of({}, {})", "split({}, ' ')", "split({}, {})", "replace({}, 'o', '0')",
    "regexp('([a-z])o', {})", "regexp_replace({}, '[0-9]', '<$0>')", "levenshtein({}, 'foo')", "grep('o', {})",
    "coalesce({}, {})", "compare({}, {})", "min({}, {})", "max({}, 3)", "pow({}, 2)", "join({}, ',')",
    "{} in [1,2,3]", "{} in ['foo','x',null]", "{} in {}", "1 in {}", "'x' in {}", "{} in 10.0.0.0/8",
    "{}[0]", "{}[-1]", "{}['x']", "{}[{}]", "{}[1:]", "{}[:-1]", "{}[-2:2]", "cast({}, 'named')",
)  # fmt: skip


class Questions(Programs):
    """Programs whose result is the same whatever the order of groups."""

    def question(self, other: str) -> str:
        """Operators on rows, now and then a join with another pool, and one in the end that brings rows together or
        takes some of them.
        """
        ops = [self._row_op() for _ in range(self._dice.randrange(0, 4))]
        if self._dice.random() < 0.15:
            return " | ".join([*ops[:2], self._join(other), *ops[2:], self._last()])
        if self._dice.random() < 0.05:
            return " | ".join([*ops[:2], self._join_of_groups(other), *ops[2:], self._of_no_order()])
        if ops and self._dice.random() < 0.1:
            ops.append(self._dice.choice(("uniq", "uniq -c")))
        last = self._last()
        if not is_ordered(last) and self._dice.random() < 0.5:
            return " | ".join([*ops, last, *self._of_groups()])
        return " | ".join([*ops, last])

    def expr(self, depth: int, name: str = "") -> str:
        """An expression; often of a simple kind, or a function of a field, so that much of a program is columnar."""
        dice = self._dice
        kind = dice.random()
        if depth <= 0 or kind < 0.35:
            return super().expr(depth, name)
        return self._function(depth, name) if kind < 0.7 else self._simple()

    def _field(self) -> str:
        return self._dice.choice((*FIELDS, "e", "r"))

    def _function(self, depth: int, name: str) -> str:
        dice = self._dice
        inner = self._field() if dice.random() < 0.7 else self.expr(depth - 1, name)
        form = dice.choice((dice.choice(_CASTS) + "({})", dice.choice(_OF_ONE) + "({})", dice.choice(_OF_MORE)))
        return f"({form.format(inner, self._field())})"

    def _simple(self) -> str:
        dice, f = self._dice, self._field
        plain = dice.choice(_PLAIN)
        forms: tuple[Callable[[], str], ...] = (
            lambda: f(),
            lambda: f"({f()} {dice.choice(('==', '!=', '<', '>='))} {plain})",
            lambda: f"({f()} {dice.choice('+-*/')} {plain})",
            lambda: f"(has({f()}) ? {f()} : {f()})",
            lambda: f"typeof({f()})",
            lambda: f"{{q:{f()},p:{f()}}}",
        )
        return dice.choice(forms)()

    def _legs(self) -> str:
        """A fork or a switch."""
        e, op, dice = self.expr, self._row_op, self._dice
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"fork (=> {op()} => {op()} | {op()})",
            lambda: f"switch (case {e(1)} => {op()} case {e(1)} => {op()} default => {op()})",
            lambda: f"fork (=> count() by {self._field()} => {op()} | head 3)",
            lambda: f"switch (case {e(1)} => {op()} | union(k) default => sum(k) by {self._field()})",
            lambda: f"switch (default => pass case {e(1)} => {op()})",
            lambda: f"switch {self._field()} (case 1 => {op()} case 'x' => pass case null => {op()} default => {op()})",
        )
        return dice.choice(forms)()

    def _join(self, other: str) -> str:
        """A join with another pool, or of two legs."""
        e, f, op, dice = self.expr, self._field, self._row_op, self._dice
        key = dice.choice(("a", "k", "n", "s", f()))
        keys: tuple[Callable[[], str], ...] = (
            lambda: key,
            lambda: key,
            lambda: f"{key}={dice.choice(('a', 'k', 'n', 's', f()))}",
            lambda: f"({e(1)})=({e(1)})",
        )
        args: tuple[Callable[[], str], ...] = (
            lambda: "",
            lambda: f()[:1],
            lambda: f"z:={e(1)}",
            lambda: f"k, z:={f()}, k_2:=k",
        )
        sides: tuple[Callable[[], str], ...] = (
            lambda: f"from {other}",
            lambda: f"from {other} | {op()}",
            lambda: f"from {other} | sort {dice.choice(('', '-r '))}{key}",
            lambda: f"from {other} | sort {dice.choice(('', '-r '))}{key}, {f()} | head 6",
            lambda: f"from {other} | join (from {other}) on {key} z:={f()}",
        )
        how = f"{dice.choice(('', 'inner ', 'left ', 'right ', 'anti '))}join"
        on = f"on {dice.choice(keys)()} {dice.choice(args)()}".rstrip()
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"{how} ({dice.choice(sides)()}) {on}",
            lambda: f"{how} ({dice.choice(sides)()}) {on}",
            lambda: f"sort {dice.choice(('', '-r '))}{key} | {how} ({dice.choice(sides)()}) {on}",
            lambda: f"fork (=> head 9 => {op()}) | {how} {on}",
            lambda: f"fork (=> {op()} | sort {key} | head 9 => where {e(1)}) | {how} {on}",
            lambda: f"switch (case {e(1)} => pass default => {op()}) | {how} {on}",
        )
        return dice.choice(forms)()

    def _join_of_groups(self, other: str) -> str:
        """A join with groups, which are in no order."""
        f, dice = self._field, self._dice
        how = f"{dice.choice(('', 'left ', 'right ', 'anti '))}join"
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"{how} (from {other} | count() by k) on k=k z:=count",
            lambda: f"count() by k | {how} (from {other}) on k z:={f()}",
            lambda: f"fork (=> count() by k => sum(k) by k) | {how} on k z:=sum",
        )
        return dice.choice(forms)()

    def _of_no_order(self) -> str:
        f, dice = self._field, self._dice
        return dice.choice(("pass", f"{dice.choice(_UNORDERED)}({f()}) by {f()}"))

    def _of_groups(self) -> list[str]:
        """Operators on groups, whatever their order."""
        e, f, dice = self.expr, self._field, self._dice
        forms: tuple[Callable[[], str], ...] = (
            lambda: self._row_op(),
            lambda: f"where {dice.choice(('count', 'sum', 'q', 'max'))} > {dice.randrange(4)}",
            lambda: f"put z:={dice.choice(('count', 'sum', 'q', 'avg'))} + {e(0)}",
            lambda: f"sort {f()}, count",
            lambda: f"count() by {dice.choice(('count', 'sum', 'q', 'w', 'union'))}",
            lambda: f"sum({dice.choice(('count', 'sum', 'q'))}), min({e(1)}) by {f()}",
        )
        return [dice.choice(forms)() for _ in range(dice.randrange(1, 4))]

    def _row_op(self) -> str:
        e, f, dice = self.expr, self._field, self._dice
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"where {e(2)}",
            lambda: f"where {f()} {dice.choice(('==', '!=', '<', '<=', '>', '>='))} {e(0)}",
            lambda: f"where {e(1)} and {e(1)}",
            lambda: f"where {e(1)} or {f()} == {e(0)}",
            lambda: f"yield {e(2)}",
            lambda: f"yield {{x:{e(1)},y:{e(1)}}}",
            lambda: f"put {dice.choice('abkz')}:={e(2)}",
            lambda: f"cut {f()}, z:={e(1)}",
            lambda: f"drop {f()}",
            lambda: f"rename zz:={f()}",
            lambda: f"yield {f()}, {e(1)}",
            lambda: f"over {dice.choice(('list', 'b', 'r', 'this', f()))}",
            lambda: f"over {f()}, {dice.choice(('list', 'b', 'r'))}",
            lambda: f"over list => (where {e(1)})",
            lambda: dice.choice(("foo", "x*", "/a+/", "1", "10.0.0.0/8", "not x", "foo or bar", "k", "2.", "null")),
        )
        return dice.choice(forms)()

    def _last(self) -> str:
        e, f, dice = self.expr, self._field, self._dice
        name = dice.choice((*AGGREGATES, "count", "sum"))
        where = dice.choice(("", "", f" where {e(1)}"))
        forms: tuple[Callable[[], str], ...] = (
            lambda: "pass",
            lambda: f"head {dice.randrange(1, 9)}",
            lambda: f"sort {dice.choice(('', '-r ', '-nulls first '))}{f()}, {e(1)}",
            lambda: f"sort {dice.choice(('', '-r '))}{f()} | head {dice.randrange(1, 9)}",
            lambda: f"top {dice.randrange(1, 9)} {f()}",
            lambda: f"{dice.choice(('', 'sort k | '))}fuse",
            lambda: f"tail {dice.randrange(1, 9)}",
            lambda: f"sort {dice.choice(('', '-r '))}{f()} | tail {dice.randrange(1, 9)}",
            lambda: f"{dice.choice(('sort k | ', 'cut k | ', ''))}uniq{dice.choice(('', ' -c'))}",
            lambda: f"{dice.choice(('', 'sort this | '))}yield {{v:{f()}}} | uniq{dice.choice(('', ' -c'))}",
            lambda: self._legs(),
            lambda: f"{self._legs()} | {dice.choice(_UNORDERED)}({f()}){where} by {f()}",
            lambda: f"{name}({f()}){where}",
            lambda: f"{name}({f()}){where} by {f()}",
            lambda: f"{name}({e(1)}){where}, q:=count() by {f()}, w:={e(1)}",
            lambda: f"{name}({f()}){where}, q:={dice.choice(sorted(AGGREGATES))}({f()}) by {f()}",
            lambda: f"count() by {f()}, typeof({f()})",
        )
        return dice.choice(forms)()


Outcome = list[Value] | str


def outcome(values: Callable[[], Iterable[Value]]) -> Outcome:
    """The values, or the error that came instead of them."""
    try:
        return list(values())
    except ShoalError as e:
        return f"{type(e).__name__}: {e}"


def is_ordered(program: str) -> bool:
    """Whether the values come in an order that means something: they are not groups."""
    ops = program.split(" | ")
    return ops[-1].split()[0] in _IN_ORDER and not any(map(_IN_NO_ORDER.match, ops))


def difference(right: Outcome, other: Outcome, ordered: bool = False) -> str | None:
    """How an outcome differs from the right one; None if it does not."""
    if isinstance(right, str) or isinstance(other, str):
        return None if right == other else f"{_shown(right)} but {_shown(other)}"
    if [v.type for v in right] == [v.type for v in other] and right == other:
        return None
    if ordered:
        return f"{_shown(right)} but {_shown(other)}"
    a, b = sorted(right, key=_rank), sorted(other, key=_rank)
    if len(a) == len(b) and all(x.type is y.type and is_close(x.data, y.data) for x, y in zip(a, b, strict=True)):
        return None
    return f"{_shown(right)} but {_shown(other)}"


def _shown(result: Outcome) -> str:
    return result if isinstance(result, str) else "\n".join(["", *(format_value(v) for v in result[:20])])


def _rank(value: Value) -> str:
    return format_value(value)


def is_close(a: Any, b: Any) -> bool:
    """Whether data is the same but for the last digits of floats."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_CLOSE)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(is_close, a, b))
    return bool(a == b)


# ---- the cases of the language


def cases_of_pools() -> list[tuple[str, list[Case]]]:
    """Each input that has values, with the programs that read it. Declarations would have to come before the source."""
    cases = [case for case in load_cases("language") if not case.error and case.input.strip() not in ("", "null")]
    plain = [case for case in cases if not case.program.startswith(("const ", "func ", "op ", "type ", "from "))]
    by_input = groupby(sorted(plain, key=lambda case: case.input), key=lambda case: case.input)
    return [(text, list(group)) for text, group in by_input]


def differing_cases(lake: Lake, inputs: Iterable[tuple[str, list[Case]]], engine: str) -> list[str]:
    """The cases in which an engine differs from the interpreter, each on a pool with its input, and how."""
    differing: list[str] = []
    for text, cases in inputs:
        pool = f"cases_{to_text(new())}"
        lake.create(pool, key="k").load(parse_values(text))
        for case in cases:
            program = f"from {pool} | {case.program}"
            right = outcome(lambda: lake.query(program, engine="interp"))  # noqa: B023 - called at once
            how = difference(right, outcome(lambda: lake.query(program, engine=engine)))  # noqa: B023
            if how is not None:
                differing.append(f"{case.name}: {how}")
    return differing


# ---- statistics


COUNTED = [
    ("from p", 30, 30),
    ("from p | where s == 'a'", 30, 15),
    ("from p | where s == 'a' | count()", 30, 15),
    ("from p | count() by s", 30, 30),
    ("from p | where grok('%{WORD:x}', s).x == 'b' | count()", 30, 15),
    ("from p | where s == 'a' | sort -r n | head 3", 30, 15),
    ("from p | fuse", 30, 30),
    ("from p | collect(n)", 30, 30),
    ("from p | where n > 1000", 0, 0),
    ("from p | where s == 'a' | join (from q) on n=n right:=m | count()", 35, 20),
    ("from p | fork (=> where s == 'a' | count() => count())", 60, 45),
]
"""Programs over the pools of `load_counted`, and how many records they read and match."""


def load_counted(lake: Lake) -> None:
    """Two pools: one of several objects that do not overlap, and one."""
    pool = lake.create("p", key="n")
    for start in (0, 10, 20):
        pool.load([{"n": i, "s": "ab"[i % 2]} for i in range(start, start + 10)])
    lake.create("q", key="n").load([{"n": i, "m": i * i} for i in range(5)])


def statistics_of(lake: Lake, program: str, engine: str) -> Statistics:
    """What an engine counts."""
    return lake.query(program, engine=engine, statistics=True).hold().statistics


def check_statistics(lake: Lake, program: str, read: int, matched: int, engine: str) -> None:
    """An engine counts what is expected, and so does the interpreter."""
    counted, right = statistics_of(lake, program, engine), statistics_of(lake, program, "interp")
    assert (counted.records_read, counted.records_matched) == (read, matched), program
    if "fork" not in program:  # the interpreter reads once for all legs
        assert (right.records_read, right.records_matched) == (read, matched), program
    assert (counted.bytes_read > 0) == (read > 0)
    assert (counted.bytes_matched > 0) == (matched > 0)
    assert counted.bytes_matched <= counted.bytes_read
