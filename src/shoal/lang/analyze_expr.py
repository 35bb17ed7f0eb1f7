"""Expressions: names to fields, variables and constants; calls to what they call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from shoal.errors import InvalidInput
from shoal.lang import ast, plan
from shoal.lang.aggregates import AGGREGATES
from shoal.lang.context import Context, FuncRef, Scope, Types
from shoal.lang.functions import SHAPING, check_call, signature
from shoal.lang.regexps import compile_regexp, glob_to_regexp
from shoal.model import types as t
from shoal.model import values
from shoal.model.literals import parse_duration, parse_float, parse_ip, parse_net, parse_time
from shoal.model.text import format_value
from shoal.model.values import Value

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


class Sequences(Protocol):
    """Resolves the operators of subqueries."""

    def seq(self, ops: ast.Seq) -> plan.Seq:
        """A sequence of operators."""


class Expressions:
    """Resolves expressions."""

    def __init__(self, context: Context, types: Types, sequences: Sequences) -> None:
        self._context = context
        self._types = types
        self._sequences = sequences

    def exprs(self, parts: Sequence[ast.Expr]) -> tuple[plan.Expr, ...]:
        """Several expressions; each may have an error of its own."""
        out: list[plan.Expr] = []
        for part in parts:
            expr: plan.Expr = plan.Literal(values.MISSING)
            with self._context.noted():
                expr = self.expr(part)
            out.append(expr)
        return tuple(out)

    def optional(self, node: ast.Expr | None) -> plan.Expr | None:
        """An expression that may be left out."""
        return None if node is None else self.expr(node)

    def expr(self, node: ast.Expr) -> plan.Expr:
        """One expression."""
        match node:
            case ast.Primitive():
                with self._context.at(node):
                    return plan.Literal(primitive_value(node))
            case ast.TypeValue(typ):
                return self._type_value(node, typ)
            case ast.FString(parts):
                return self._fstring(parts)
            case ast.Id(name):
                return self._id(node, name)
            case ast.Unary(op, operand):
                return plan.Unary(op, self.expr(operand))
            case ast.Binary("~", left, right):
                return self._regexp_match(left, right)
            case ast.Binary(op, left, right):
                return self._binary(op, self.expr(left), self.expr(right))
            case ast.Conditional(cond, then, otherwise):
                return plan.Conditional(self.expr(cond), self.expr(then), self.expr(otherwise))
            case ast.Call():
                return self._call(node)
            case ast.Cast(inner, typ):
                return plan.Call("cast", (self.expr(inner), self.expr(typ)))
            case ast.Dot(inner, name):
                return dot(self.expr(inner), name)
            case ast.Index(inner, index):
                return self._index(inner, index)
            case ast.Slice(inner, start, stop):
                return plan.Slice(self.expr(inner), self.optional(start), self.optional(stop))
            case ast.Agg():
                return self._agg(node)
            case ast.RecordExpr(elems):
                return self._record(elems)
            case ast.ArrayExpr(elems):
                return plan.ArrayExpr(self._elems(elems))
            case ast.SetExpr(elems):
                return plan.SetExpr(self._elems(elems))
            case ast.MapExpr(entries):
                return plan.MapExpr(tuple((self.expr(e.key), self.expr(e.value)) for e in entries))
            case ast.OverExpr():
                return self._subquery(node)
            case ast.Regexp(pattern):
                return self._regexp_search(node, pattern)
            case ast.Glob(pattern):
                return self._regexp_search(node, glob_to_regexp(pattern))
            case ast.Grep(pattern, subject):
                return self._grep(pattern, subject)
            case ast.Term(text, value):
                return self._term(node, text, value)
            case _:
                assert_never(node)

    def _type_value(self, node: ast.TypeValue, typ: ast.Type) -> plan.Expr:
        """A type; a lone name that the program does not define may come with the data."""
        with self._context.at(node):
            try:
                return plan.Literal(Value(t.TYPE, self._types.resolve_type(typ)))
            except InvalidInput:
                if isinstance(typ, ast.TypeName):
                    return plan.Call("typename", (plan.Literal(values.string(typ.name)),))
                raise

    def _fstring(self, parts: tuple[str | ast.Expr, ...]) -> plan.Expr:
        """Text joined with what its expressions are as strings."""
        as_string = plan.Literal(Value(t.TYPE, t.STRING))
        text: plan.Expr | None = None
        for part in parts:
            piece: plan.Expr
            if isinstance(part, str):
                piece = plan.Literal(values.string(part))
            else:
                piece = plan.Call("cast", (self.expr(part), as_string))
            text = piece if text is None else plan.Binary("+", text, piece)
        return text or plan.Literal(values.string(""))

    def _id(self, node: ast.Id, name: str) -> plan.Expr:
        with self._context.at(node):
            bound = self._context.scope.lookup_expr(name)
            if isinstance(bound, FuncRef):
                raise InvalidInput(f'"{name}" is a function (call it with parentheses)')
        if bound is not None:
            return bound
        return plan.This() if name == "this" else plan.This((name,))

    def _binary(self, op: str, left: plan.Expr, right: plan.Expr) -> plan.Expr:
        """A comparison with a constant has its own meaning for unlike types, so what is constant is settled here."""
        if op in COMPARISONS:
            return plan.Binary(op, left, self._settled(right))
        return plan.Binary(op, self._settled(left) if op == "in" else left, right)

    def _settled(self, expr: plan.Expr) -> plan.Expr:
        if isinstance(expr, plan.Literal | plan.This | plan.Var):
            return expr
        value = self._context.constant(expr)
        return expr if values.is_error(value) else plan.Literal(value)

    def _regexp_match(self, left: ast.Expr, right: ast.Expr) -> plan.Expr:
        if not isinstance(right, ast.Regexp):
            raise self._context.error("right-hand side of ~ expression must be a regular expression", right.span)
        with self._context.at(right):
            compile_regexp(right.pattern)
        return plan.RegexpMatch(right.pattern, self.expr(left))

    def _regexp_search(self, node: ast.Expr, pattern: str, subject: plan.Expr = plan.This()) -> plan.Expr:
        with self._context.at(node):
            compile_regexp(pattern)
        return plan.RegexpSearch(pattern, subject)

    def _grep(self, pattern: ast.Expr, subject: ast.Expr | None) -> plan.Expr:
        inner = plan.This() if subject is None else self.expr(subject)
        match pattern:
            case ast.Regexp(text):
                return self._regexp_search(pattern, text, inner)
            case ast.Glob(text):
                return self._regexp_search(pattern, glob_to_regexp(text), inner)
        expr = self.expr(pattern)
        term = self._constant_string(expr)
        if term is not None:
            return plan.Search(term, values.string(term), inner)
        return plan.Call("grep", (expr, inner))

    def _term(self, node: ast.Term, text: str, value: ast.Primitive | ast.TypeValue) -> plan.Expr:
        with self._context.at(node):
            if isinstance(value, ast.TypeValue):
                literal = Value(t.TYPE, self._types.resolve_type(value.type))
            else:
                literal = primitive_value(value)
            return plan.Search(text, literal, plan.This())

    def _index(self, inner: ast.Expr, index: ast.Expr) -> plan.Expr:
        expr, at = self.expr(inner), self.expr(index)
        if isinstance(expr, plan.This):
            name = self._constant_string(at)
            if name is not None:
                return plan.This((*expr.path, name))
        return plan.Index(expr, at)

    def _constant_string(self, expr: plan.Expr) -> str | None:
        if isinstance(expr, plan.This):
            return None
        value = self._context.constant(expr)
        if value.type.under is t.STRING and value.data is not None:
            return str(value.data)
        return None

    def _record(self, elems: tuple[ast.Field | ast.Id | ast.Spread, ...]) -> plan.Expr:
        names: set[str] = set()
        out: list[plan.Field | plan.Spread] = []
        for elem in elems:
            if isinstance(elem, ast.Spread):
                out.append(plan.Spread(self.expr(elem.expr)))
                continue
            if elem.name in names:
                raise self._context.error(f'record expression: duplicate field: "{elem.name}"', elem.span)
            names.add(elem.name)
            value = self.expr(elem.value) if isinstance(elem, ast.Field) else self.expr(elem)
            out.append(plan.Field(elem.name, value))
        return plan.RecordExpr(tuple(out))

    def _elems(self, elems: tuple[ast.Expr | ast.Spread, ...]) -> tuple[plan.Expr | plan.Spread, ...]:
        return tuple(plan.Spread(self.expr(e.expr)) if isinstance(e, ast.Spread) else self.expr(e) for e in elems)

    def _subquery(self, node: ast.OverExpr) -> plan.Expr:
        exprs = self.exprs(node.exprs)
        with self._context.inside(Scope(self._context.scope)):
            names = self.locals(node.locals)
            return plan.Subquery(names, exprs, self._sequences.seq(node.body))

    def locals(self, nodes: tuple[ast.Local, ...]) -> tuple[plan.Expr, ...]:
        """The values of a `with` clause; each name is defined from there on."""
        exprs: list[plan.Expr] = []
        for node in nodes:
            exprs.append(self.expr(node.expr))
            with self._context.at(node):
                self._context.scope.define_variable(node.name)
        return tuple(exprs)

    # ---- calls

    def _agg(self, node: ast.Agg) -> plan.Expr:
        """An aggregate where nothing else can stand."""
        if node.name not in AGGREGATES:
            raise self._context.error(f"unknown aggregation function: {node.name}", node.span)
        expr = self.optional(node.expr)
        if expr is None and AGGREGATES[node.name].needs_argument:
            raise self._context.error(f"aggregator '{node.name}' requires argument", node.span)
        return plan.Agg(node.name, expr, self.optional(node.where))

    def aggregate_call(self, node: ast.Call) -> plan.Agg | None:
        """The aggregate that is called; None for other names, and for a function that takes this many arguments."""
        if node.name not in AGGREGATES:
            return None
        if len(node.args) > 1:
            if node.name in ("min", "max"):
                return None
            raise self._context.error("too many arguments", node.span)
        expr = self.expr(node.args[0]) if node.args else None
        if expr is None and AGGREGATES[node.name].needs_argument:
            raise InvalidInput(f"{node.name}: argument required")
        return plan.Agg(node.name, expr, self.optional(node.where))

    def _call(self, node: ast.Call) -> plan.Expr:
        aggregate = self.aggregate_call(node)
        if aggregate is not None:
            return aggregate
        if node.where is not None:
            raise self._context.error("'where' clause on non-aggregation function", node.span)
        with self._context.at(node):
            bound = self._context.scope.lookup_expr(node.name)
            if bound is not None:
                return self._user_call(node, bound)
        if node.name == "map":
            return self._map_call(node)
        args = self.exprs(node.args)
        with self._context.at(node):
            return self._builtin_call(node.name, args)

    def _user_call(self, node: ast.Call, bound: plan.Expr | FuncRef) -> plan.Expr:
        if not isinstance(bound, FuncRef):
            raise InvalidInput("not a function")
        if len(bound.params) != len(node.args):
            raise InvalidInput(f"call expects {len(bound.params)} argument(s)")
        return plan.UserCall(bound.index, node.name, self.exprs(node.args))

    def _builtin_call(self, name: str, args: tuple[plan.Expr, ...]) -> plan.Expr:
        if name in t.PRIMITIVES or name == t.DATE.name:
            check_count(len(args), 1)
            return plan.Call("cast", (*args, plan.Literal(Value(t.TYPE, t.primitive(name)))))
        check_call(name, len(args))
        if name in SHAPING:
            check_type_argument(name, args[-1])
        default = signature(name).default
        if default is not None and len(args) == signature(name).min_args:
            args = (plan.This(default), *args)
        return plan.Call(name, args)

    def _map_call(self, node: ast.Call) -> plan.Expr:
        with self._context.at(node):
            check_call("map", len(node.args))
        subject, function = node.args
        if not isinstance(function, ast.Id):
            raise self._context.error("second argument must be the identifier of a function", function.span)
        inner = ast.Call(function.name, (ast.Id("this", span=function.span),), span=function.span)
        return plan.MapCall(self.expr(subject), self._call(inner))


def check_count(count: int, expected: int) -> None:
    """Refuse a call of a type with anything but one argument."""
    if count < expected:
        raise InvalidInput("too few arguments")
    if count > expected:
        raise InvalidInput("too many arguments")


def check_type_argument(name: str, arg: plan.Expr) -> None:
    """Refuse a constant where a type must stand; `cast` takes the name of a type as well."""
    if not isinstance(arg, plan.Literal) or arg.value.type.under is t.TYPE:
        return
    if name != "cast" or arg.value.type.under is not t.STRING:
        raise InvalidInput(f"shaper type argument is not a type: {format_value(arg.value)}")
    if arg.value.data in t.PRIMITIVES:
        raise InvalidInput(f'bad type name "{arg.value.data}": primitive type name')


def dot(expr: plan.Expr, name: str) -> plan.Expr:
    """A field of an expression; a field of a path is a longer path."""
    if isinstance(expr, plan.This):
        return plan.This((*expr.path, name))
    return plan.Dot(expr, name)


def primitive_value(node: ast.Primitive) -> Value:
    """The value of a literal; raises InvalidInput if there is none."""
    typ, text = t.primitive(node.type), node.text
    match node.type:
        case "string":
            return Value(typ, text)
        case "bool":
            return Value(typ, text == "true")
        case "null":
            return values.NULL
        case "int64":
            return Value(typ, _int64(text))
        case "float64":
            return Value(typ, parse_float(text))
        case "bytes":
            if len(text) % 2:
                raise InvalidInput(f"invalid bytes: {text} (odd number of digits)")
            return Value(typ, bytes.fromhex(text[2:]))
        case "duration":
            return Value(typ, parse_duration(text))
        case "time":
            return Value(typ, parse_time(text))
        case "ip":
            return Value(typ, parse_ip(text))
        case "net":
            return Value(typ, parse_net(text))
    raise InvalidInput(f"no literals of type {node.type}")


def _int64(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise InvalidInput(f"invalid integer: {text} (out of range of int64)")
    return int(text)
