"""Expressions and types as text. What is written is read back as the same tree, with no more parentheses than that
takes; a name is quoted or gets its backslash if it would not be read back as itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import assert_never

from shoal.lang import ast
from shoal.lang.parse_expr import balanced
from shoal.lang.parse_literals import Literals
from shoal.lang.parser import parse_search
from shoal.lang.scanner import KEYWORD_CHARS, Scanner
from shoal.model.literals import quote
from shoal.model.node import frozen


class Level(IntEnum):
    """How tightly an expression holds together."""

    CONDITIONAL = 0
    OR = 1
    AND = 2
    COMPARISON = 3
    SUM = 4
    PRODUCT = 5
    NOT = 6
    MINUS = 7
    POSTFIX = 8


_OPERATORS = {
    "or": Level.OR,
    "and": Level.AND,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "~"), Level.COMPARISON),
    **dict.fromkeys("+-", Level.SUM),
    **dict.fromkeys("*/%", Level.PRODUCT),
}
_WORDS = ("and", "or", "in")
_LOGICAL = (Level.OR, Level.AND)
_BARE_IN_GLOB = re.compile(rf"{KEYWORD_CHARS}|\d|\*")
_NO_GLOB_START = re.compile(r"\d|/")  # a number, a comment, or a regexp with a slash further on
_ADDRESS_END = re.compile(r"[0-9a-fA-F:.]*\Z")
_ADDRESS_START = re.compile(r"[0-9a-fA-F.]*:")


def level_of(expr: ast.Expr) -> Level:
    """How tightly this expression holds together."""
    match expr:
        case ast.Conditional() | ast.Call(where=ast.Node()) | ast.Agg(where=ast.Node()):
            return Level.CONDITIONAL
        case ast.Binary():
            return _OPERATORS[expr.op]
        case ast.Unary():
            return Level.NOT if expr.op == "!" else Level.MINUS
        case ast.Primitive() if expr.type != "string":
            return Level.MINUS  # `1.a` begins with a float, and `-1` is not a negation
        case _:
            return Level.POSTFIX


@frozen
class ExprPrinter:
    """Writes expressions; `seq` writes the operators of a subquery, whose lines begin at a margin."""

    seq: Callable[[ast.Seq, str], str]
    margin: str = ""
    times: str = "*"

    def expr(self, expr: ast.Expr, level: Level = Level.CONDITIONAL) -> str:
        """The expression, in parentheses if it is looser than this level."""
        return _within(level, expr, self._expr(expr))

    def exprs(self, exprs: Sequence[ast.Expr], level: Level = Level.CONDITIONAL) -> str:
        """Expressions with commas between them."""
        return ", ".join(self.expr(expr, level) for expr in exprs)

    def assignments(self, assignments: Sequence[ast.Assignment]) -> str:
        """Assignments with commas between them."""
        return ",".join(map(self._assignment, assignments))

    def with_clause(self, names: Sequence[ast.Local]) -> str:
        """The `with` clause, if there is something in it."""
        texts = ", ".join(f"{identifier(name.name)}={self.expr(name.expr)}" for name in names)
        return f" with {texts}" if texts else ""

    def search(self, expr: ast.Expr, level: Level = Level.OR) -> str:
        """A search expression. A product needs spaces there: `a*b` is a glob."""
        return _within(level, expr, self._search(expr))

    def _search(self, expr: ast.Expr) -> str:
        match expr:
            case ast.Binary() if level_of(expr) in _LOGICAL:
                return self._chain(expr, self.search)
            case ast.Unary(op="!"):
                return f"!{self.search(expr.operand, Level.NOT)}"
            case ast.Primitive(type="bool", text="true"):
                return "*"
            case ast.Binary():
                return self._search_comparison(expr)
            case _:
                return self._spaced()._expr(expr)

    def _search_comparison(self, expr: ast.Binary) -> str:
        """A comparison, its left side in parentheses if it begins with what would be a search term: `"a".b==1`."""
        text = self._spaced()._expr(expr)
        search = parse_search(text)
        if isinstance(search, ast.Binary) and search.op == expr.op:
            return text
        left = self._spaced().expr(expr.left, Level.SUM)
        return f"({left}){text.removeprefix(left)}"

    def _spaced(self) -> ExprPrinter:
        return replace(self, times=" * ")

    def _expr(self, expr: ast.Expr) -> str:
        match expr:
            case ast.Primitive():
                return _primitive(expr)
            case ast.TypeValue():
                return f"<{print_type(expr.type)}>"
            case ast.FString():
                return f'f"{"".join(map(self._fstring_part, expr.parts))}"'
            case ast.Id():
                return identifier(expr.name)
            case ast.Unary():
                return expr.op + self.expr(expr.operand, Level.NOT if expr.op == "!" else Level.POSTFIX)
            case ast.Binary():
                return self._binary(expr)
            case ast.Conditional():
                return f"({self.expr(expr.cond)}) ? {self.expr(expr.then)} : {self.expr(expr.otherwise)}"
            case ast.Call():
                return f"{identifier(expr.name)}({self.exprs(expr.args)}){self._where(expr.where)}"
            case ast.Agg():
                return f"{identifier(expr.name)}({self._optional(expr.expr)}){self._where(expr.where)}"
            case ast.Cast():
                return f"{self.expr(expr.type)}({self.expr(expr.expr)})"
            case ast.Dot():
                return f"{self.expr(expr.expr, Level.POSTFIX)}.{identifier(expr.name)}"
            case ast.Index():
                return f"{self.expr(expr.expr, Level.POSTFIX)}[{self.expr(expr.index)}]"
            case ast.Slice():
                ends = (self._optional(end, Level.SUM) for end in (expr.start, expr.stop))
                return f"{self.expr(expr.expr, Level.POSTFIX)}[{_colon(*ends)}]"
            case ast.RecordExpr():
                return f"{{{','.join(map(self._record_elem, expr.elems))}}}"
            case ast.ArrayExpr():
                return f"[{','.join(map(self._elem, expr.elems))}]"
            case ast.SetExpr():
                return f"|[{','.join(map(self._elem, expr.elems))}]|"
            case ast.MapExpr():
                return f"|{{{','.join(map(self._entry, expr.entries))}}}|"
            case ast.OverExpr():
                return self._over(expr)
            case ast.Regexp():
                return f"/{expr.pattern}/"
            case ast.Glob():
                return _glob(expr.pattern)
            case ast.Grep():
                subject = "" if expr.expr is None else f",{self.expr(expr.expr)}"
                return f"grep({self._spaced().expr(expr.pattern)}{subject})"
            case ast.Term():
                return expr.text
            case _:
                assert_never(expr)

    def _binary(self, expr: ast.Binary) -> str:
        level = level_of(expr)
        if level in _LOGICAL:
            return self._chain(expr, self.expr)
        # Comparisons do not chain; sums and products do, to the left.
        left = self.expr(expr.left, Level.SUM if level == Level.COMPARISON else level)
        right = self.expr(expr.right, Level(level + 1))
        op = self.times if expr.op == "*" else expr.op
        spaced = op in _WORDS or (op == "/" and _is_network(left, right))
        return f"{left} {op} {right}" if spaced else f"{left}{op}{right}"

    def _chain(self, expr: ast.Binary, write: Callable[[ast.Expr, Level], str]) -> str:
        tighter = Level(level_of(expr) + 1)
        return f" {expr.op} ".join(write(operand, tighter) for operand in _operands(expr))

    def _optional(self, expr: ast.Expr | None, level: Level = Level.CONDITIONAL) -> str:
        return "" if expr is None else self.expr(expr, level)

    def _where(self, cond: ast.Expr | None) -> str:
        return "" if cond is None else f" where {self.expr(cond, Level.OR)}"

    def _fstring_part(self, part: str | ast.Expr) -> str:
        if isinstance(part, str):
            return quote(part)[1:-1].replace("{", r"\{")
        return f"{{{self.expr(part)}}}"

    def _record_elem(self, elem: ast.Field | ast.Id | ast.Spread) -> str:
        match elem:
            case ast.Field():
                return f"{field_name(elem.name)}:{self.expr(elem.value)}"
            case ast.Id():
                return identifier(elem.name)
            case ast.Spread():
                return f"...{self.expr(elem.expr)}"
            case _:
                assert_never(elem)

    def _elem(self, elem: ast.Expr | ast.Spread) -> str:
        return f"...{self.expr(elem.expr)}" if isinstance(elem, ast.Spread) else self.expr(elem)

    def _entry(self, entry: ast.Entry) -> str:
        return _colon(self.expr(entry.key, Level.OR), self.expr(entry.value))

    def _over(self, expr: ast.OverExpr) -> str:
        inner = replace(self, margin=f"{self.margin}  ", times="*")
        head = f"over {inner.exprs(expr.exprs)}{inner.with_clause(expr.locals)}"
        lines = (head, f"| {self.seq(expr.body, inner.margin)}")
        return "(" + "".join(f"\n{inner.margin}{line}" for line in lines) + f"\n{self.margin})"

    def _assignment(self, assignment: ast.Assignment) -> str:
        value = self.expr(assignment.expr)
        return value if assignment.target is None else f"{self.expr(assignment.target, Level.POSTFIX)}:={value}"


def print_type(typ: ast.Type) -> str:
    """A type."""
    match typ:
        case ast.TypePrimitive():
            return typ.name
        case ast.TypeName():
            return _type_name(typ.name)
        case ast.TypeDef():
            return f"{_type_name(typ.name)}={print_type(typ.type)}"
        case ast.TypeRecord():
            return f"{{{','.join(f'{field_name(field.name)}:{print_type(field.type)}' for field in typ.fields)}}}"
        case ast.TypeArray():
            return f"[{print_type(typ.elem)}]"
        case ast.TypeSet():
            return f"|[{print_type(typ.elem)}]|"
        case ast.TypeMap():
            return f"|{{{print_type(typ.key)}:{print_type(typ.value)}}}|"
        case ast.TypeUnion():
            return f"({','.join(map(print_type, typ.types))})"
        case ast.TypeEnum():
            return f"enum({','.join(map(field_name, typ.symbols))})"
        case ast.TypeOfError():
            return f"error({print_type(typ.inner)})"
        case _:
            assert_never(typ)


def identifier(name: str) -> str:
    """A name; a reserved word with a backslash."""
    return name if _is_identifier(name) else f"\\{name}"


def field_name(name: str) -> str:
    """A name where a string may stand as well."""
    return name if _is_identifier(name) else quote(name)


def _is_identifier(name: str) -> bool:
    scanner = Scanner(name)
    return scanner.identifier() == name and scanner.at_end()


def _type_name(name: str) -> str:
    scan = Scanner(name)
    typ = Literals(scan).type()
    return name if isinstance(typ, ast.TypeName) and typ.name == name and scan.at_end() else quote(name)


def _within(level: Level, expr: ast.Expr, text: str) -> str:
    return f"({text})" if level_of(expr) < level else text


def _primitive(primitive: ast.Primitive) -> str:
    if primitive.type == "string":
        return quote(primitive.text)
    return "null" if primitive.type == "null" else primitive.text


def _operands(expr: ast.Binary) -> Sequence[ast.Expr]:
    """The operands of a chain of `and` or `or`: as many as the parser puts together to the same tree."""
    for operands in (_leaves(expr, expr.op), _spine(expr)):
        if _is_same(expr, balanced(expr.op, operands)):
            return operands
    return expr.left, expr.right


def _leaves(expr: ast.Expr, op: str) -> list[ast.Expr]:
    if isinstance(expr, ast.Binary) and expr.op == op:
        return _leaves(expr.left, op) + _leaves(expr.right, op)
    return [expr]


def _spine(expr: ast.Binary) -> list[ast.Expr]:
    operands = [expr.right]
    left = expr.left
    while isinstance(left, ast.Binary) and left.op == expr.op:
        operands.append(left.right)
        left = left.left
    return [left, *reversed(operands)]


def _is_same(a: ast.Expr, b: ast.Expr) -> bool:
    """Whether two trees over the same leaves have the same form."""
    if not (isinstance(a, ast.Binary) and isinstance(b, ast.Binary)):
        return a is b
    return a is b or (a.op == b.op and _is_same(a.left, b.left) and _is_same(a.right, b.right))


def _address_end(text: str) -> str:
    """The characters at the end of a text that may belong to an address."""
    match = _ADDRESS_END.search(text)
    return match[0] if match else ""


def _is_network(left: str, right: str) -> bool:
    """Whether a slash would make a network of an address and a number."""
    end = _address_end(left)
    return right[:1].isdigit() and (":" in end or end.count(".") == 3)


def _colon(left: str, right: str) -> str:
    """Two texts with a colon between them; with spaces if they would make an address, or a pattern no pattern."""
    end = _address_end(left)
    joined = ":" in end or (_ADDRESS_START.match(right) and (end or not left))
    return f"{left} : {right}" if joined or left.endswith("/") else f"{left}:{right}"


def _glob(pattern: str) -> str:
    r"""A glob. Escapes were undone by the parser, but for `\*`: an escaped star is not a star."""
    if pattern == "*":
        return pattern
    text = r"\*".join("".join(map(_glob_char, part)) for part in pattern.split(r"\*"))
    if _NO_GLOB_START.match(text):
        return f"\\u{ord(text[0]):04x}{text[1:]}"
    return text


def _glob_char(char: str) -> str:
    if _BARE_IN_GLOB.fullmatch(char):
        return char
    if char in "=+-'\"\\":
        return f"\\{char}"
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\u{{{ord(char):x}}}"
