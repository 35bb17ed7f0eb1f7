"""Programs by chance: well-formed ones over a handful of fields, and damaged ones.

The same seed gives the same program, so that a failure can be named by its number.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from shoal.lang.aggregates import AGGREGATES
from shoal.lang.functions import SIGNATURES

FIELDS = ("a", "b", "k", "n", "s", "r.x", "r.y", "ts", "list", "ip", "this")
LITERALS = (
    "1", "0", "-1", "2.5", "-0.", "NaN", "Inf", "'x'", '"a b"', "true", "false", "null", "1s", "-3h", "0x0aff",
    "10.0.0.1", "::1", "10.0.0.0/8", "2020-01-01T00:00:00Z", "<int64>", "<{a:int64,b:[string]}>", "<(int64,string)>",
    "<port=uint16>", "9223372036854775807", "''", "[]", "{}", "|[]|", "|{}|", "'[0-9]+'", "'%Y'", "'a,b'", "100000",
)  # fmt: skip
_SKIPPED = frozenset({"map", "now", "ksuid"})
_JOINS = ("", "left ", "right ", "anti ")
_OPS = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "and", "or")
_FUNCTIONS = sorted(set(SIGNATURES) - _SKIPPED)
_DAMAGE = (*"()[]{}|<>=:,.'\"/\\*+-!?~@#$%^&;` \n\t\0é😀", "=>", ":=", "|[", "]|", "...", "over ", "by ", "\\u{110000}")


class Programs:
    """A source of programs."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def program(self) -> str:
        """A program of some operators, now and then with declarations."""
        decls = "".join(self._dice.choice(self._decls)() for _ in range(self._dice.choice((0, 0, 0, 1, 2))))
        return decls + self.seq(3)

    @property
    def _decls(self) -> tuple[Callable[[], str], ...]:
        name = f"x{self._dice.randrange(10**6)}"
        return (
            lambda: f"const {name}={self._dice.choice(LITERALS)} ",
            lambda: f"func {name}(p): ({self.expr(2, 'p')}) ",
            lambda: f"func {name}(p): (p==0 ? 0 : {name}(p-1)) ",
            lambda: f"type {name}={{a:int64}} ",
            lambda: f"op {name}(p): (yield p) ",
        )

    def seq(self, depth: int) -> str:
        """Operators with pipes between them."""
        return " | ".join(self.op(depth) for _ in range(self._dice.randrange(1, 4)))

    def op(self, depth: int) -> str:
        """One operator."""
        e, f, dice = self.expr, self._field, self._dice
        simple: tuple[Callable[[], str], ...] = (
            lambda: f"where {e(2)}",
            lambda: f"yield {e(2)}",
            lambda: f"put {f()}:={e(2)}",
            lambda: f"cut {f()}, z:={e(2)}",
            lambda: f"drop {f()}",
            lambda: f"rename zz:={f()}",
            lambda: f"sort {dice.choice(('', '-r ', '-nulls first '))}{e(1)}",
            lambda: f"head {dice.randrange(1, 5)}",
            lambda: f"tail {dice.randrange(1, 5)}",
            lambda: f"top {dice.randrange(1, 5)} {f()}",
            lambda: dice.choice(("uniq", "uniq -c", "fuse", "shape", "sample", "pass", "sort", "debug")),
            lambda: f"{self.agg()} by {f()}",
            lambda: f"{self.agg()}, q:={self.agg()} by w:={e(1)} with -limit 2",
            lambda: self.agg(),
            lambda: f"explode {e(1)} by {dice.choice(('int64', 'string', '{a:int64}'))}",
            lambda: dice.choice(("foo", "x*", "/a+/", "1", "10.0.0.0/8", "not x", "a or b", "*")),
            lambda: f"assert {e(1)}",
            lambda: f"over {e(1)}",
        )
        nested: tuple[Callable[[], str], ...] = (
            lambda: f"fork (=> {self.seq(depth - 1)} => {self.seq(depth - 1)})",
            lambda: f"fork (=> {self.seq(depth - 1)} => pass) | merge {e(1)}",
            lambda: f"switch (case {e(1)} => {self.seq(depth - 1)} default => {self.seq(depth - 1)})",
            lambda: f"switch {e(1)} (case 1 => {self.seq(depth - 1)} case 'x' => pass)",
            lambda: f"over {e(1)} with v={e(1)} => ({self.seq(depth - 1)})",
            lambda: f"{dice.choice(_JOINS)}join ({self.seq(depth - 1)}) on {f()}={f()} z:={e(1)}",
        )
        return dice.choice(simple + nested if depth > 0 else simple)()

    def agg(self) -> str:
        """An aggregate."""
        name = self._dice.choice(sorted(AGGREGATES))
        return f"{name}({self.expr(1)})" + self._dice.choice(("", "", f" where {self.expr(1)}"))

    def expr(self, depth: int, name: str = "") -> str:
        """An expression."""
        dice = self._dice
        if depth <= 0 or dice.random() < 0.2:
            return dice.choice((name or self._field(), self._field(), dice.choice(LITERALS)))

        def sub() -> str:
            return self.expr(depth - 1, name)

        forms: tuple[Callable[[], str], ...] = (
            lambda: f"({sub()} {dice.choice(_OPS)} {sub()})",
            lambda: f"!({sub()})",
            lambda: f"(-({sub()}))",
            lambda: f"({sub()} ? {sub()} : {sub()})",
            lambda: self._call(sub),
            lambda: f"{{q:{sub()},...{sub()}}}",
            lambda: f"[{sub()},...{sub()}]",
            lambda: f"|[{sub()},{sub()}]|",
            lambda: f"|{{{sub()}:{sub()}}}|",
            lambda: f"({sub()})[{sub()}]",
            lambda: f"({sub()})[{dice.choice(('1:', ':-1', '0:2'))}]",
            lambda: f"(over {sub()} | {dice.choice(('sum(this)', 'collect(this)', 'head 1', 'yield this'))})",
            lambda: f"map({sub()}, {dice.choice(('upper', 'typeof', 'int64', 'abs'))})",
            lambda: f"{dice.choice(('int64', 'string', 'time', 'ip', 'float64', 'bool', 'uint8'))}({sub()})",
            lambda: f'f"{{{sub()}}}!"',
            lambda: f"({sub()} ~ /[a-z]+/)",
        )
        return dice.choice(forms)()

    def _call(self, sub: Callable[[], str]) -> str:
        name = self._dice.choice(_FUNCTIONS)
        signature = SIGNATURES[name]
        most = signature.max_args if signature.max_args is not None else signature.min_args + 2
        return f"{name}({', '.join(sub() for _ in range(self._dice.randint(signature.min_args, most)))})"

    def _field(self) -> str:
        return self._dice.choice(FIELDS)

    def damaged(self, text: str) -> str:
        """A program with some of its characters gone, doubled, moved or replaced."""
        for _ in range(self._dice.randrange(1, 4)):
            i, j = sorted(self._dice.randrange(len(text) + 1) for _ in range(2))
            text = self._dice.choice(
                (
                    text[:i] + text[j:],
                    text[:i] + self._dice.choice(_DAMAGE) + text[i:],
                    text[:j] + text[i:j] + text[j:],
                    text[:i] + text[j:] + text[i:j],
                    text[:i] + text[i:j] * 8 + text[j:],
                )
            )[:4000]
        return text
