"""The syntax tree: what was written, nothing resolved. Every node knows where it stands in the text.

A span is a pair of offsets into the program's text: where the node begins, and where it ends.
"""

from __future__ import annotations

from typing import TypeAlias

from shoal.model.node import node

Span: TypeAlias = tuple[int, int]


@node(kw_only=True)
class Node:
    """A part of a program and its span in the text."""

    span: Span = (0, 0)


# Types, as they are written: a name is looked up by the analysis.


@node()
class TypePrimitive(Node):
    """`int64`."""

    name: str


@node()
class TypeName(Node):
    """`port`: a type that was named before, in the program or in the data."""

    name: str


@node()
class TypeDef(Node):
    """`port=uint16`."""

    name: str
    type: Type


@node()
class TypeField(Node):
    """`name: type` in a record type."""

    name: str
    type: Type


@node()
class TypeRecord(Node):
    """`{a:int64}`."""

    fields: tuple[TypeField, ...]


@node()
class TypeArray(Node):
    """`[int64]`."""

    elem: Type


@node()
class TypeSet(Node):
    """`|[int64]|`."""

    elem: Type


@node()
class TypeMap(Node):
    """`|{string:int64}|`."""

    key: Type
    value: Type


@node()
class TypeUnion(Node):
    """`(int64,string)`."""

    types: tuple[Type, ...]


@node()
class TypeEnum(Node):
    """`enum(red,green)`."""

    symbols: tuple[str, ...]


@node()
class TypeOfError(Node):
    """`error(string)`."""

    inner: Type


Type: TypeAlias = (
    TypePrimitive | TypeName | TypeDef | TypeRecord | TypeArray | TypeSet | TypeMap | TypeUnion | TypeEnum | TypeOfError
)


# Expressions.


@node()
class Primitive(Node):
    """A literal: the name of its primitive type and its text (for a string, what it means)."""

    type: str
    text: str


@node()
class TypeValue(Node):
    """`<{a:int64}>`."""

    type: Type


@node()
class FString(Node):
    """`f"a {b} c"`: texts and expressions in turn."""

    parts: tuple[str | Expr, ...]


@node()
class Id(Node):
    """A name: a constant, a variable, a parameter, a field of `this`, or `this`."""

    name: str


@node()
class Unary(Node):
    """`!e` or `-e`."""

    op: str
    operand: Expr


@node()
class Binary(Node):
    """`a op b`, op being one of: and or == != < <= > >= in ~ + - * / %."""

    op: str
    left: Expr
    right: Expr


@node()
class Conditional(Node):
    """`cond ? then : otherwise`."""

    cond: Expr
    then: Expr
    otherwise: Expr


@node()
class Call(Node):
    """`name(args)`, where the name is a function, an aggregate, a type or a user's own."""

    name: str
    args: tuple[Expr, ...]
    where: Expr | None = None


@node()
class Cast(Node):
    """`<type>(e)`."""

    expr: Expr
    type: Expr


@node()
class Dot(Node):
    """`e.name`."""

    expr: Expr
    name: str


@node()
class Index(Node):
    """`e[i]`."""

    expr: Expr
    index: Expr


@node()
class Slice(Node):
    """`e[a:b]`."""

    expr: Expr
    start: Expr | None
    stop: Expr | None


@node()
class Agg(Node):
    """`name(e) where cond` where an aggregate must stand."""

    name: str
    expr: Expr | None
    where: Expr | None = None


@node()
class Spread(Node):
    """`...e` in a record, an array or a set."""

    expr: Expr


@node()
class Field(Node):
    """`name: e` in a record."""

    name: str
    value: Expr


@node()
class RecordExpr(Node):
    """`{a:1, b, ...c}`."""

    elems: tuple[Field | Id | Spread, ...]


@node()
class ArrayExpr(Node):
    """`[1, ...a]`."""

    elems: tuple[Expr | Spread, ...]


@node()
class SetExpr(Node):
    """`|[1, ...a]|`."""

    elems: tuple[Expr | Spread, ...]


@node()
class Entry(Node):
    """`key: value` in a map."""

    key: Expr
    value: Expr


@node()
class MapExpr(Node):
    """`|{k:v}|`."""

    entries: tuple[Entry, ...]


@node()
class Local(Node):
    """`name = e` of a `with` clause; without the expression it is the name itself."""

    name: str
    expr: Expr


@node()
class OverExpr(Node):
    """`over e with x | seq` as a value."""

    exprs: tuple[Expr, ...]
    locals: tuple[Local, ...]
    body: Seq


@node()
class Regexp(Node):
    """`/pattern/`."""

    pattern: str


@node()
class Glob(Node):
    """`pat*tern`."""

    pattern: str


@node()
class Grep(Node):
    """`grep(pattern, e)`."""

    pattern: Expr
    expr: Expr | None


@node()
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


@node()
class Assignment(Node):
    """`target := e`; the target may be left out where it can be inferred."""

    target: Expr | None
    expr: Expr


# Operators.


@node()
class Scope(Node):
    """Declarations and the operators that see them."""

    decls: tuple[Decl, ...]
    body: Seq


@node()
class Fork(Node):
    """`fork ( => seq => seq )`."""

    legs: tuple[Seq, ...]


@node()
class Case(Node):
    """`case e => seq`; without an expression it is the default."""

    expr: Expr | None
    body: Seq


@node()
class Switch(Node):
    """`switch e ( case ... )`."""

    expr: Expr | None
    cases: tuple[Case, ...]


@node()
class SortKeyArg(Node):
    """`order key desc` of a file: the order that its values are declared to have."""

    keys: tuple[Expr, ...]
    order: str


@node()
class Text(Node):
    """A path, URL or pool name: quoted, or bare (then a constant of that name comes first)."""

    text: str
    quoted: bool


@node()
class File(Node):
    """`file path format f order k`."""

    path: Text
    format: str = ""
    sort_key: SortKeyArg | None = None


@node()
class Get(Node):
    """`get url ...`."""

    url: Text
    format: str = ""
    sort_key: SortKeyArg | None = None
    method: str = ""
    headers: RecordExpr | None = None
    body: str = ""


@node()
class Pool(Node):
    """`from pool@commit:meta tap` or `from pool range x to y`, or `pool ...` inside `from ( )`.

    The source `changes` may have two commits, `from pool@since..commit:changes`.
    """

    name: Text | Glob | Regexp | None
    commit: str = ""
    meta: str = ""
    tap: bool = False
    range: tuple[Expr, Expr] | None = None
    since: str | None = None


@node()
class Pass(Node):
    """`pass`."""


Source: TypeAlias = File | Get | Pool | Pass


@node()
class Trunk(Node):
    """A source and what follows it, in `from ( ... )`."""

    source: Source
    body: Seq | None


@node()
class From(Node):
    """`from ( source => seq ... )`."""

    trunks: tuple[Trunk, ...]


@node()
class Summarize(Node):
    """`summarize aggs by keys with -limit n`."""

    aggs: tuple[Assignment, ...]
    keys: tuple[Assignment, ...]
    limit: int = 0


@node()
class OpAssignment(Node):
    """`a:=e, b:=e`: a put, or a summarize if all are aggregates."""

    assignments: tuple[Assignment, ...]


@node()
class OpExpr(Node):
    """An expression as an operator: search, where, yield, summarize or a call of a user's operator."""

    expr: Expr


@node()
class Search(Node):
    """`search sexpr`."""

    expr: Expr


@node()
class Where(Node):
    """`where e`."""

    expr: Expr


@node()
class Assert(Node):
    """`assert e`, with the text of the expression."""

    expr: Expr
    text: str


@node()
class SortExpr(Node):
    """`e desc` of a sort; without an order it is the sort's own."""

    expr: Expr
    order: str = ""


@node()
class Sort(Node):
    """`sort -r -nulls first keys`."""

    keys: tuple[SortExpr, ...]
    reverse: bool = False
    nulls_first: bool = False


@node()
class Top(Node):
    """`top n -flush keys`."""

    keys: tuple[Expr, ...]
    limit: Expr | None = None
    flush: bool = False


@node()
class Cut(Node):
    """`cut a, b:=e`."""

    args: tuple[Assignment, ...]


@node()
class Drop(Node):
    """`drop a, b`."""

    args: tuple[Expr, ...]


@node()
class Head(Node):
    """`head n`."""

    count: Expr | None = None


@node()
class Tail(Node):
    """`tail n`."""

    count: Expr | None = None


@node()
class Uniq(Node):
    """`uniq -c`."""

    count: bool = False


@node()
class Put(Node):
    """`put a:=e`."""

    args: tuple[Assignment, ...]


@node()
class Rename(Node):
    """`rename new:=old`."""

    args: tuple[Assignment, ...]


@node()
class Fuse(Node):
    """`fuse`."""


@node()
class Shape(Node):
    """`shape`."""


@node()
class Join(Node):
    """`left join ( right ) on a=b args`."""

    style: str
    right: Seq | None
    left_key: Expr
    right_key: Expr | None
    args: tuple[Assignment, ...]


@node()
class Sample(Node):
    """`sample e`."""

    expr: Expr | None = None


@node()
class Load(Node):
    """`load pool@branch author a message m meta z`."""

    pool: Text
    branch: str = ""
    author: str = ""
    message: str = ""
    meta: str = ""


@node()
class Explode(Node):
    """`explode e by type as f`."""

    args: tuple[Expr, ...]
    type: Type
    name: Expr | None = None


@node()
class Merge(Node):
    """`merge e`."""

    expr: Expr


@node()
class Over(Node):
    """`over e with x => ( seq )`."""

    exprs: tuple[Expr, ...]
    locals: tuple[Local, ...] = ()
    body: Seq | None = None


@node()
class Yield(Node):
    """`yield a, b`."""

    exprs: tuple[Expr, ...]


@node()
class Debug(Node):
    """`debug e`."""

    expr: Expr | None = None


@node()
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


@node()
class ConstDecl(Node):
    """`const name = e`."""

    name: str
    expr: Expr


@node()
class FuncDecl(Node):
    """`func name(params): ( e )`."""

    name: str
    params: tuple[str, ...]
    body: Expr


@node()
class OpDecl(Node):
    """`op name(params): ( seq )`."""

    name: str
    params: tuple[str, ...]
    body: Seq


@node()
class TypeDecl(Node):
    """`type name = type`."""

    name: str
    type: Type


Decl: TypeAlias = ConstDecl | FuncDecl | OpDecl | TypeDecl
