"""The plan: a program with every name resolved. Engines run it; rules rewrite it; it can be pickled.

A sequence is a tuple of operators, each fed by the one before. Where an operator leaves several
streams (fork, switch, several sources), the next one takes them all: `Join` and `Merge` in their
own way, any other in no particular order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias
from typing import Literal as OneOf

from shoal.model.node import node
from shoal.model.types import Type
from shoal.model.values import Value

Path: TypeAlias = tuple[str, ...]
Order: TypeAlias = OneOf["asc", "desc"]
JoinStyle: TypeAlias = OneOf["anti", "inner", "left", "right"]

# ---- expressions


@node()
class Literal:
    """A constant value."""

    value: Value


@node()
class This:
    """A field of the current value by its path; the empty path is the value itself."""

    path: Path = ()


@node()
class Var:
    """A local of a lateral scope, or a parameter of a function, by its slot."""

    name: str
    slot: int


@node()
class Dot:
    """A field of any value."""

    expr: Expr
    name: str


@node()
class Index:
    """An element of an array or set, a field of a record, a value of a map."""

    expr: Expr
    index: Expr


@node()
class Slice:
    """A part of an array, set, string or bytes."""

    expr: Expr
    start: Expr | None
    stop: Expr | None


@node()
class Unary:
    """`!` or `-`."""

    op: str
    operand: Expr


@node()
class Binary:
    """One of: and or == != < <= > >= in + - * / %."""

    op: str
    left: Expr
    right: Expr


@node()
class Conditional:
    """`cond ? then : otherwise`."""

    cond: Expr
    then: Expr
    otherwise: Expr


@node()
class Call:
    """A call of a built-in function."""

    name: str
    args: tuple[Expr, ...]


@node()
class UserCall:
    """A call of a function of the program, by its index in `Program.funcs`."""

    func: int
    name: str
    args: tuple[Expr, ...]


@node()
class MapCall:
    """A function applied to each element of an array or set."""

    expr: Expr
    inner: Expr


@node()
class Agg:
    """An aggregate; outside of a summarize it is a running value."""

    name: str
    expr: Expr | None
    where: Expr | None = None


@node()
class Search:
    """Whether a value, or the text it was written as, is anywhere in the subject."""

    text: str
    value: Value
    expr: Expr


@node()
class RegexpSearch:
    """Whether a string or field name anywhere in the subject matches."""

    pattern: str
    expr: Expr


@node()
class RegexpMatch:
    """`e ~ /pattern/`."""

    pattern: str
    expr: Expr


@node()
class Field:
    """A field of a record expression."""

    name: str
    expr: Expr


@node()
class Spread:
    """All that is in a record, an array or a set."""

    expr: Expr


@node()
class RecordExpr:
    """A record."""

    elems: tuple[Field | Spread, ...]


@node()
class ArrayExpr:
    """An array."""

    elems: tuple[Expr | Spread, ...]


@node()
class SetExpr:
    """A set."""

    elems: tuple[Expr | Spread, ...]


@node()
class MapExpr:
    """A map."""

    entries: tuple[tuple[Expr, Expr], ...]


@node()
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


@node()
class Assignment:
    """A target, static (`This`) or computed (`Index`, `Dot`), and what goes there."""

    target: Expr
    expr: Expr


@node()
class SortKey:
    """An expression and its direction."""

    expr: Expr
    order: Order = "asc"


# ---- operators: sources


class Traits(NamedTuple):
    """What planners and engines ask about an operator. Each operator states its own; running aggregates in its
    expressions are a question apart (`walk.has_aggregate`).
    """

    is_scan: bool = False
    """It reads from outside of the program, and begins a sequence."""
    is_row_wise: bool = False
    """What it makes of a value depends on that value alone: tasks may do it, each for some of the values."""
    keeps_count: bool = False
    """It gives one value for each that it takes."""
    keeps_values: bool = False
    """It gives values that it took, in their order, but perhaps not all of them."""
    limits: bool = False
    """It gives no more values than its `count`."""
    buffers: bool = False
    """It holds values while it takes more of them, so it needs a share of the memory."""
    multiplies: bool = False
    """It may give more values than it takes."""
    splits: bool = False
    """It has legs, whose streams come together in what follows."""
    writes: bool = False
    """It changes a lake."""


@node()
class DefaultScan:
    """What the query was given to read.

    `filter` is a predicate that the source may apply early; `fields` are the paths that are used,
    None meaning all of them.
    """

    traits = Traits(is_scan=True)

    filter: Expr | None = None
    fields: tuple[Path, ...] | None = None


@node()
class FileScan:
    """A file by its path or URL."""

    traits = Traits(is_scan=True)

    path: str
    format: str = "auto"
    order: tuple[SortKey, ...] = ()
    filter: Expr | None = None
    fields: tuple[Path, ...] | None = None


@node()
class HttpScan:
    """The answer to an HTTP request."""

    traits = Traits(is_scan=True)

    url: str
    format: str = "auto"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    order: tuple[SortKey, ...] = ()
    filter: Expr | None = None
    fields: tuple[Path, ...] | None = None


@node()
class PoolScan:
    """The data of a pool at a commit."""

    traits = Traits(is_scan=True)

    pool: str
    commit: str
    order: tuple[SortKey, ...] = ()
    filter: Expr | None = None
    fields: tuple[Path, ...] | None = None


@node()
class MetaScan:
    """Metadata: of the lake (no pool), of a pool (no commit) or of a commit."""

    traits = Traits(is_scan=True)

    meta: str
    pool: str = ""
    commit: str = ""
    tap: bool = False
    filter: Expr | None = None
    since: str = ""
    """Of the changes up to a commit: the commit after which they begin; "" is the beginning."""


class Runnable(Protocol):
    """A physical plan, of which the language knows nothing but that it runs."""

    def run(self, context: Any) -> Iterator[Value]:
        """The values that it returns, in the context of one run of the program."""


@node()
class Physical:
    """A scan and the operators after it as another engine runs them."""

    traits = Traits(is_scan=True)

    plan: Runnable


Scan: TypeAlias = DefaultScan | FileScan | HttpScan | PoolScan | MetaScan | Physical

# ---- operators: the others


@node()
class Pass:
    """Everything."""

    traits = Traits(is_row_wise=True, keeps_count=True, keeps_values=True)


@node()
class Filter:
    """What makes the predicate true."""

    traits = Traits(is_row_wise=True, keeps_values=True)

    expr: Expr


@node()
class Yield:
    """One value an expression."""

    traits = Traits(is_row_wise=True, multiplies=True)

    exprs: tuple[Expr, ...]


@node()
class Cut:
    """A record of just these fields."""

    traits = Traits(is_row_wise=True, keeps_count=True)

    args: tuple[Assignment, ...]


@node()
class Put:
    """The record with these fields set."""

    traits = Traits(is_row_wise=True, keeps_count=True)

    args: tuple[Assignment, ...]


@node()
class Drop:
    """The record without these fields."""

    traits = Traits(is_row_wise=True, keeps_count=True)

    paths: tuple[Path, ...]


@node()
class Rename:
    """The record with these fields renamed."""

    traits = Traits(is_row_wise=True, keeps_count=True)

    args: tuple[Assignment, ...]


@node()
class Sort:
    """All values in order; without keys the first one decides what to sort by."""

    traits = Traits(buffers=True)

    keys: tuple[SortKey, ...]
    reverse: bool = False
    nulls_first: bool = False


@node()
class Head:
    """The first values."""

    traits = Traits(keeps_values=True, limits=True)

    count: int


@node()
class Tail:
    """The last values."""

    traits = Traits(keeps_values=True, limits=True, buffers=True)

    count: int


@node()
class Top:
    """The largest values by keys, in descending order."""

    traits = Traits(limits=True, buffers=True)

    count: int
    keys: tuple[Expr, ...]
    flush: bool = False


@node()
class TopK:
    """`sort | head n` in one: the first n of a sort, never holding more."""

    traits = Traits(limits=True, buffers=True)

    count: int
    sort: Sort


@node()
class Uniq:
    """Equal neighbours as one."""

    traits = Traits(keeps_values=True)

    count: bool = False


@node()
class Summarize:
    """Aggregates, by keys. Partial results come out or go in where the work was split."""

    traits = Traits(buffers=True)

    aggs: tuple[tuple[Path, Agg], ...]
    keys: tuple[tuple[Path, Expr], ...] = ()
    limit: int = 0
    partials_in: bool = False
    partials_out: bool = False


@node()
class Fuse:
    """All values in one type."""

    traits = Traits(buffers=True)


@node()
class Shape:
    """All values, with types that differ in nulls only made one."""

    traits = Traits(buffers=True)


@node()
class Explode:
    """The values of one type inside the arguments, each in a record of one field."""

    traits = Traits(is_row_wise=True, multiplies=True)

    args: tuple[Expr, ...]
    type: Type
    name: str = "value"


@node()
class Debug:
    """Everything, and a copy of an expression to the channel `debug`."""

    traits = Traits(keeps_count=True, keeps_values=True)

    expr: Expr


@node()
class Output:
    """The end of a stream in a named channel."""

    traits = Traits()

    name: str


@node()
class Load:
    """Everything into a pool, as one commit, of which the id comes out."""

    traits = Traits(writes=True)

    pool: str
    branch: str = ""
    author: str = ""
    message: str = ""
    meta: str = ""


@node()
class Fork:
    """Everything into each leg."""

    traits = Traits(splits=True, buffers=True, multiplies=True)

    legs: tuple[Seq, ...]


@node()
class Case:
    """A leg of a switch; without an expression it is the default."""

    expr: Expr | None
    body: Seq


@node()
class Switch:
    """Each value into the first case that it fits: that equals the expression, or is true without one."""

    traits = Traits(splits=True, buffers=True, multiplies=True)

    expr: Expr | None
    cases: tuple[Case, ...]


@node()
class Merge:
    """Several ordered streams as one ordered stream."""

    traits = Traits()

    expr: Expr


@node()
class Join:
    """Two streams by equal keys. The orders say how a side is sorted by its key, if that is certain."""

    traits = Traits(buffers=True, multiplies=True)

    style: JoinStyle
    left_key: Expr
    right_key: Expr
    args: tuple[Assignment, ...]
    left_order: Order | None = None
    right_order: Order | None = None


@node()
class Over:
    """What is inside the values of the expressions, through a lateral query if there is one."""

    traits = Traits(is_row_wise=True, multiplies=True)

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


@node()
class Func:
    """A function of the program."""

    name: str
    params: tuple[str, ...]
    body: Expr


@node()
class Program:
    """A whole program: its operators, the functions that they call, and the types that it names."""

    body: Seq
    funcs: tuple[Func, ...] = ()
    types: tuple[tuple[str, Type], ...] = ()


Node: TypeAlias = Expr | Op | Assignment | SortKey | Field | Spread | Case | Func | Program
"""Any part of a plan that is not a tuple or a plain value."""
