"""The syntax tree: what was written, nothing resolved. Every node knows where it stands in the text.

A span is a pair of offsets into the program's text: where the node begins, and where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of a program and its place in the text."""

    span: Span = (0, 0)


# Types, as they are written: a name is looked up by the analysis.


@dataclass(frozen=True, slots=True)
class TypePrimitive(Node):
    """`int64`."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """`port`: a type that was named before, in the program or in the data."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeDef(Node):
    """`port=uint16`."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class TypeField(Node):
    """`name: type` in a record type."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class TypeRecord(Node):
    """`{a:int64}`."""

    fields: tuple[TypeField, ...]


@dataclass(frozen=True, slots=True)
class TypeArray(Node):
    """`[int64]`."""

    elem: Type


@dataclass(frozen=True, slots=True)
class TypeSet(Node):
    """`|[int64]|`."""

    elem: Type


@dataclass(frozen=True, slots=True)
class TypeMap(Node):
    """`|{string:int64}|`."""

    key: Type
    value: Type


@dataclass(frozen=True, slots=True)
class TypeUnion(Node):
    """`(int64,string)`."""

    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class TypeEnum(Node):
    """`enum(red,green)`."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeOfError(Node):
    """`error(string)`."""

    inner: Type


Type: TypeAlias = (
    TypePrimitive | TypeName | TypeDef | TypeRecord | TypeArray | TypeSet | TypeMap | TypeUnion | TypeEnum | TypeOfError
)


# Expressions.


@dataclass(frozen=True, slots=True)
class Primitive(Node):
    """A literal: the name of its primitive type and its text (for a string, what it means)."""

    type: str
    text: str


@dataclass(frozen=True, slots=True)
class TypeValue(Node):
    """`<{a:int64}>`."""

    type: Type


@dataclass(frozen=True, slots=True)
class FString(Node):
    """`f"a {b} c"`: texts and expressions in turn."""

    parts: tuple[str | Expr, ...]


@dataclass(frozen=True, slots=True)
class Id(Node):
    """A name: a constant, a variable, a parameter, a field of `this`, or `this`."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`!e` or `-e`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`a op b`, op being one of: and or == != < <= > >= in ~ + - * / %."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`cond ? then : otherwise`."""

    cond: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`name(args)`, where the name is a function, an aggregate, a type or a user's own."""

    name: str
    args: tuple[Expr, ...]
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`<type>(e)`."""

    expr: Expr
    type: Expr


@dataclass(frozen=True, slots=True)
class Dot(Node):
    """`e.name`."""

    expr: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`e[i]`."""

    expr: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`e[a:b]`."""

    expr: Expr
    start: Expr | None
    stop: Expr | None


@dataclass(frozen=True, slots=True)
class Agg(Node):
    """`name(e) where cond` where an aggregate must stand."""

    name: str
    expr: Expr | None
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class Spread(Node):
    """`...e` in a record, an array or a set."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Field(Node):
    """`name: e` in a record."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class RecordExpr(Node):
    """`{a:1, b, ...c}`."""

    elems: tuple[Field | Id | Spread, ...]


@dataclass(frozen=True, slots=True)
class ArrayExpr(Node):
    """`[1, ...a]`."""

    elems: tuple[Expr | Spread, ...]


@dataclass(frozen=True, slots=True)
class SetExpr(Node):
    """`|[1, ...a]|`."""

    elems: tuple[Expr | Spread, ...]


@dataclass(frozen=True, slots=True)
class Entry(Node):
    """`key: value` in a map."""

    key: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class MapExpr(Node):
    """`|{k:v}|`."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Local(Node):
    """`name = e` of a `with` clause; without the expression it is the name itself."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class OverExpr(Node):
    """`over e with x | seq` as a value."""

    exprs: tuple[Expr, ...]
    locals: tuple[Local, ...]
    body: Seq


@dataclass(frozen=True, slots=True)
class Regexp(Node):
    """`/pattern/`."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Glob(Node):
    """`pat*tern`."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Grep(Node):
    """`grep(pattern, e)`."""

    pattern: Expr
    expr: Expr | None


@dataclass(frozen=True, slots=True)
class Term(Node):
    """A search term: a value and the text that it was written as."""

    text: str
    value: Primitive | TypeValue


Expr: TypeAlias = (
    Primitive
    | TypeValue
    | FString
    | Id
    | Unary
    | Binary
    | Conditional
    | Call
    | Cast
    | Dot
    | Index
    | Slice
    | Agg
    | RecordExpr
    | ArrayExpr
    | SetExpr
    | MapExpr
    | OverExpr
    | Regexp
    | Glob
    | Grep
    | Term
)


@dataclass(frozen=True, slots=True)
class Assignment(Node):
    """`target := e`; the target may be left out where it can be inferred."""

    target: Expr | None
    expr: Expr


# Operators.


@dataclass(frozen=True, slots=True)
class Scope(Node):
    """Declarations and the operators that see them."""

    decls: tuple[Decl, ...]
    body: Seq


@dataclass(frozen=True, slots=True)
class Fork(Node):
    """`fork ( => seq => seq )`."""

    legs: tuple[Seq, ...]


@dataclass(frozen=True, slots=True)
class Case(Node):
    """`case e => seq`; without an expression it is the default."""

    expr: Expr | None
    body: Seq


@dataclass(frozen=True, slots=True)
class Switch(Node):
    """`switch e ( case ... )`."""

    expr: Expr | None
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class SortKeyArg(Node):
    """`order key desc` of a file: the order that its values are known to have."""

    keys: tuple[Expr, ...]
    order: str


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A path, URL or pool name: quoted, or bare (then a constant of that name comes first)."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class File(Node):
    """`file path format f order k`."""

    path: Text
    format: str = ""
    sort_key: SortKeyArg | None = None


@dataclass(frozen=True, slots=True)
class Get(Node):
    """`get url ...`."""

    url: Text
    format: str = ""
    sort_key: SortKeyArg | None = None
    method: str = ""
    headers: RecordExpr | None = None
    body: str = ""


@dataclass(frozen=True, slots=True)
class Pool(Node):
    """`from pool@commit:meta tap` or `from pool range x to y`, or `pool ...` inside `from ( )`."""

    name: Text | Glob | Regexp | None
    commit: str = ""
    meta: str = ""
    tap: bool = False
    range: tuple[Expr, Expr] | None = None


@dataclass(frozen=True, slots=True)
class Pass(Node):
    """`pass`."""


Source: TypeAlias = File | Get | Pool | Pass


@dataclass(frozen=True, slots=True)
class Trunk(Node):
    """A source and what follows it, in `from ( ... )`."""

    source: Source
    body: Seq | None


@dataclass(frozen=True, slots=True)
class From(Node):
    """`from ( source => seq ... )`."""

    trunks: tuple[Trunk, ...]


@dataclass(frozen=True, slots=True)
class Summarize(Node):
    """`summarize aggs by keys with -limit n`."""

    aggs: tuple[Assignment, ...]
    keys: tuple[Assignment, ...]
    limit: int = 0


@dataclass(frozen=True, slots=True)
class OpAssignment(Node):
    """`a:=e, b:=e`: a put, or a summarize if all are aggregates."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class OpExpr(Node):
    """An expression as an operator: search, where, yield, summarize or a call of a user's operator."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Search(Node):
    """`search sexpr`."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Where(Node):
    """`where e`."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Assert(Node):
    """`assert e`, with the text of the expression."""

    expr: Expr
    text: str


@dataclass(frozen=True, slots=True)
class SortExpr(Node):
    """`e desc` of a sort; without an order it is the sort's own."""

    expr: Expr
    order: str = ""


@dataclass(frozen=True, slots=True)
class Sort(Node):
    """`sort -r -nulls first keys`."""

    keys: tuple[SortExpr, ...]
    reverse: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Top(Node):
    """`top n -flush keys`."""

    keys: tuple[Expr, ...]
    limit: Expr | None = None
    flush: bool = False


@dataclass(frozen=True, slots=True)
class Cut(Node):
    """`cut a, b:=e`."""

    args: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Drop(Node):
    """`drop a, b`."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Head(Node):
    """`head n`."""

    count: Expr | None = None


@dataclass(frozen=True, slots=True)
class Tail(Node):
    """`tail n`."""

    count: Expr | None = None


@dataclass(frozen=True, slots=True)
class Uniq(Node):
    """`uniq -c`."""

    count: bool = False


@dataclass(frozen=True, slots=True)
class Put(Node):
    """`put a:=e`."""

    args: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Rename(Node):
    """`rename new:=old`."""

    args: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Fuse(Node):
    """`fuse`."""


@dataclass(frozen=True, slots=True)
class Shape(Node):
    """`shape`."""


@dataclass(frozen=True, slots=True)
class Join(Node):
    """`left join ( right ) on a=b args`."""

    style: str
    right: Seq | None
    left_key: Expr
    right_key: Expr | None
    args: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Sample(Node):
    """`sample e`."""

    expr: Expr | None = None


@dataclass(frozen=True, slots=True)
class Load(Node):
    """`load pool@branch author a message m meta z`."""

    pool: Text
    branch: str = ""
    author: str = ""
    message: str = ""
    meta: str = ""


@dataclass(frozen=True, slots=True)
class Explode(Node):
    """`explode e by type as f`."""

    args: tuple[Expr, ...]
    type: Type
    name: Expr | None = None


@dataclass(frozen=True, slots=True)
class Merge(Node):
    """`merge e`."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Over(Node):
    """`over e with x => ( seq )`."""

    exprs: tuple[Expr, ...]
    locals: tuple[Local, ...] = ()
    body: Seq | None = None


@dataclass(frozen=True, slots=True)
class Yield(Node):
    """`yield a, b`."""

    exprs: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Debug(Node):
    """`debug e`."""

    expr: Expr | None = None


@dataclass(frozen=True, slots=True)
class Output(Node):
    """`output name`."""

    name: str


Op: TypeAlias = (
    Scope
    | Fork
    | Switch
    | From
    | File
    | Get
    | Pool
    | Pass
    | Summarize
    | OpAssignment
    | OpExpr
    | Search
    | Where
    | Assert
    | Sort
    | Top
    | Cut
    | Drop
    | Head
    | Tail
    | Uniq
    | Put
    | Rename
    | Fuse
    | Shape
    | Join
    | Sample
    | Load
    | Explode
    | Merge
    | Over
    | Yield
    | Debug
    | Output
)
Seq: TypeAlias = tuple[Op, ...]


# Declarations.


@dataclass(frozen=True, slots=True)
class ConstDecl(Node):
    """`const name = e`."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class FuncDecl(Node):
    """`func name(params): ( e )`."""

    name: str
    params: tuple[str, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class OpDecl(Node):
    """`op name(params): ( seq )`."""

    name: str
    params: tuple[str, ...]
    body: Seq


@dataclass(frozen=True, slots=True)
class TypeDecl(Node):
    """`type name = type`."""

    name: str
    type: Type


Decl: TypeAlias = ConstDecl | FuncDecl | OpDecl | TypeDecl
