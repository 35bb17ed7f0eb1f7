"""The plan: a program with every name resolved. Engines run it; rules rewrite it; it can be pickled.

A sequence is a tuple of operators, each fed by the one before. Where an operator leaves several
streams (fork, switch, several sources), the next one takes them all: `Join` and `Merge` in their
own way, any other in no particular order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from shoal.model.types import Type
from shoal.model.values import Value

Path: TypeAlias = tuple[str, ...]
Order: TypeAlias = OneOf["asc", "desc"]
JoinStyle: TypeAlias = OneOf["anti", "inner", "left", "right"]

# ---- expressions


@dataclass(frozen=True, slots=True)
class Literal:
    """A value known before the data is."""

    value: Value


@dataclass(frozen=True, slots=True)
class This:
    """A field of the current value by its path; the empty path is the value itself."""

    path: Path = ()


@dataclass(frozen=True, slots=True)
class Var:
    """A local of a lateral scope, or a parameter of a function, by its place."""

    name: str
    slot: int


@dataclass(frozen=True, slots=True)
class Dot:
    """A field of any value."""

    expr: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """An element of an array or set, a field of a record, a value of a map."""

    expr: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an array, set, string or bytes."""

    expr: Expr
    start: Expr | None
    stop: Expr | None


@dataclass(frozen=True, slots=True)
class Unary:
    """`!` or `-`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """One of: and or == != < <= > >= in + - * / %."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Conditional:
    """`cond ? then : otherwise`."""

    cond: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a built-in function."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class UserCall:
    """A call of a function of the program, by its place in `Program.funcs`."""

    func: int
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MapCall:
    """A function applied to each element of an array or set."""

    expr: Expr
    inner: Expr


@dataclass(frozen=True, slots=True)
class Agg:
    """An aggregate; outside of a summarize it is a running value."""

    name: str
    expr: Expr | None
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """Whether a value, or the text it was written as, is anywhere in the subject."""

    text: str
    value: Value
    expr: Expr


@dataclass(frozen=True, slots=True)
class RegexpSearch:
    """Whether a string or field name anywhere in the subject matches."""

    pattern: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class RegexpMatch:
    """`e ~ /pattern/`."""

    pattern: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record expression."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Spread:
    """All that is in a record, an array or a set."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class RecordExpr:
    """A record."""

    elems: tuple[Field | Spread, ...]


@dataclass(frozen=True, slots=True)
class ArrayExpr:
    """An array."""

    elems: tuple[Expr | Spread, ...]


@dataclass(frozen=True, slots=True)
class SetExpr:
    """A set."""

    elems: tuple[Expr | Spread, ...]


@dataclass(frozen=True, slots=True)
class MapExpr:
    """A map."""

    entries: tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, slots=True)
class Subquery:
    """A lateral query as a value."""

    locals: tuple[Expr, ...]
    exprs: tuple[Expr, ...]
    body: Seq


Expr: TypeAlias = (
    Literal
    | This
    | Var
    | Dot
    | Index
    | Slice
    | Unary
    | Binary
    | Conditional
    | Call
    | UserCall
    | MapCall
    | Agg
    | Search
    | RegexpSearch
    | RegexpMatch
    | RecordExpr
    | ArrayExpr
    | SetExpr
    | MapExpr
    | Subquery
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A target, static (`This`) or computed (`Index`, `Dot`), and what goes there."""

    target: Expr
    expr: Expr


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression and its direction."""

    expr: Expr
    order: Order = "asc"


# ---- operators: sources


@dataclass(frozen=True, slots=True)
class DefaultScan:
    """What the query was given to read.

    `filter` is a predicate that the source may apply early; `fields` are the paths that are used,
    None meaning all of them.
    """

    filter: Expr | None = None
    fields: tuple[Path, ...] | None = None


@dataclass(frozen=True, slots=True)
class FileScan:
    """A file by its path or URL."""

    path: str
    format: str = "auto"
    order: tuple[SortKey, ...] = ()
    filter: Expr | None = None
    fields: tuple[Path, ...] | None = None


@dataclass(frozen=True, slots=True)
class HttpScan:
    """The answer to an HTTP request."""

    url: str
    format: str = "auto"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    order: tuple[SortKey, ...] = ()
    filter: Expr | None = None
    fields: tuple[Path, ...] | None = None


@dataclass(frozen=True, slots=True)
class PoolScan:
    """The data of a pool at a commit."""

    pool: str
    commit: str
    order: tuple[SortKey, ...] = ()
    filter: Expr | None = None
    fields: tuple[Path, ...] | None = None


@dataclass(frozen=True, slots=True)
class MetaScan:
    """Metadata: of the lake (no pool), of a pool (no commit) or of a commit."""

    meta: str
    pool: str = ""
    commit: str = ""
    tap: bool = False
    filter: Expr | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """What another engine makes of a scan and the operators after it, by its place among those of the query."""

    index: int


Scan: TypeAlias = DefaultScan | FileScan | HttpScan | PoolScan | MetaScan | Computed

# ---- operators: the others


@dataclass(frozen=True, slots=True)
class Pass:
    """Everything."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What makes the predicate true."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Yield:
    """One value an expression."""

    exprs: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """A record of just these fields."""

    args: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Put:
    """The record with these fields set."""

    args: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """The record without these fields."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Rename:
    """The record with these fields renamed."""

    args: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """All values in order; without keys the first one tells what to sort by."""

    keys: tuple[SortKey, ...]
    reverse: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The first values."""

    count: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The last values."""

    count: int


@dataclass(frozen=True, slots=True)
class Top:
    """The largest values by keys, in descending order."""

    count: int
    keys: tuple[Expr, ...]
    flush: bool = False


@dataclass(frozen=True, slots=True)
class TopK:
    """`sort | head n` in one: the first n of a sort, never holding more."""

    count: int
    sort: Sort


@dataclass(frozen=True, slots=True)
class Uniq:
    """Equal neighbours as one."""

    count: bool = False


@dataclass(frozen=True, slots=True)
class Summarize:
    """Aggregates, by keys. Partial results come out or go in where the work was split."""

    aggs: tuple[tuple[Path, Agg], ...]
    keys: tuple[tuple[Path, Expr], ...] = ()
    limit: int = 0
    partials_in: bool = False
    partials_out: bool = False


@dataclass(frozen=True, slots=True)
class Fuse:
    """All values in one type."""


@dataclass(frozen=True, slots=True)
class Shape:
    """All values, with types that differ in nulls only made one."""


@dataclass(frozen=True, slots=True)
class Explode:
    """The values of one type inside the arguments, each in a record of one field."""

    args: tuple[Expr, ...]
    type: Type
    name: str = "value"


@dataclass(frozen=True, slots=True)
class Debug:
    """Everything, and a copy of an expression to the channel `debug`."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Output:
    """The end of a stream in a named channel."""

    name: str


@dataclass(frozen=True, slots=True)
class Load:
    """Everything into a pool, as one commit, of which the id comes out."""

    pool: str
    branch: str = ""
    author: str = ""
    message: str = ""
    meta: str = ""


@dataclass(frozen=True, slots=True)
class Fork:
    """Everything into each leg."""

    legs: tuple[Seq, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A leg of a switch; without an expression it is the default."""

    expr: Expr | None
    body: Seq


@dataclass(frozen=True, slots=True)
class Switch:
    """Each value into the first case that it fits: that equals the expression, or is true without one."""

    expr: Expr | None
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """Several ordered streams as one ordered stream."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Join:
    """Two streams by equal keys. The orders tell how a side is known to be sorted by its key."""

    style: JoinStyle
    left_key: Expr
    right_key: Expr
    args: tuple[Assignment, ...]
    left_order: Order | None = None
    right_order: Order | None = None


@dataclass(frozen=True, slots=True)
class Over:
    """What is inside the values of the expressions, through a lateral query if there is one."""

    exprs: tuple[Expr, ...]
    locals: tuple[Expr, ...] = ()
    body: Seq | None = None


Op: TypeAlias = (
    Scan
    | Pass
    | Filter
    | Yield
    | Cut
    | Put
    | Drop
    | Rename
    | Sort
    | Head
    | Tail
    | Top
    | TopK
    | Uniq
    | Summarize
    | Fuse
    | Shape
    | Explode
    | Debug
    | Output
    | Load
    | Fork
    | Switch
    | Merge
    | Join
    | Over
)
Seq: TypeAlias = tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Func:
    """A function of the program."""

    name: str
    params: tuple[str, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program: its operators, the functions that they call, and the types that it names."""

    body: Seq
    funcs: tuple[Func, ...] = ()
    types: tuple[tuple[str, Type], ...] = ()
