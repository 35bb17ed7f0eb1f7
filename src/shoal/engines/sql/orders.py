"""Orders in SQL: what rows are sorted by, so that the engine, and Python in merging, order as the interpreter does."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql
from shoal.engines.sql.expressions import value
from shoal.engines.sql.frames import Case, Frame, Item, Order, merged_column
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Outcome, is_known_error
from shoal.engines.sql.types import physical
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import MISSING

_WHOLE = frozenset((*t.SIGNED, t.DURATION, t.TIME, t.UINT8, t.UINT16, t.UINT32))
_BYTEWISE = (t.STRING, t.BYTES, t.IP, t.BOOL)


def sort_order(op: plan.Sort, frames: Sequence[Frame]) -> tuple[Order, ...]:
    """What the rows of each frame are sorted by."""
    if not op.keys:
        raise NotColumnar("a sort that looks at the data for what to sort by")
    made: list[list[Item]] = [[] for _ in frames]
    for key in op.keys:
        is_descending = (key.order == "desc") != op.reverse
        for items, found in zip(made, key_order(key.expr, frames, is_descending, op.nulls_first), strict=True):
            items.extend(found)
    return tuple(tuple(items) for items in made)


def key_order(expr: plan.Expr, frames: Sequence[Frame], is_descending: bool, nulls_first: bool) -> tuple[Order, ...]:
    """The items of one key: whether it is null, whether it is NaN, and what it is. A missing key counts as null."""
    found = [[(case, o) for case in f.cases for o in value(expr, case.node)] for f in frames]
    kind = _kind({o.node.type.under for held in found for _, o in held if not _is_nothing(o.node)})
    return tuple(_items(held, kind, is_descending, nulls_first) for held in found)


def _is_nothing(node: Node) -> bool:
    if isinstance(node, Const):
        return node.value.data is None or is_known_error(node, MISSING)
    return node.type.under is t.NULL


def _kind(types: set[t.Type]) -> str:
    """The type of SQL in which keys of these types are ordered."""
    if types <= _WHOLE:
        return "BIGINT"
    if types <= t.FLOATS:
        return "DOUBLE"
    if len(types) == 1:
        (only,) = types
        if only is t.UINT64:
            return "UBIGINT"
        if only in _BYTEWISE:
            return {t.STRING: "VARCHAR", t.BOOL: "BOOLEAN"}.get(only, "BLOB")
    raise NotColumnar("keys of types that SQL orders otherwise")


def _items(found: Sequence[tuple[Case, Outcome]], kind: str, is_descending: bool, nulls_first: bool) -> Order:
    entries: list[tuple[Case, Cond, Sql | None]] = []
    for case, outcome in found:
        when = build.both(case.when, outcome.when)
        if _is_nothing(outcome.node):
            entries.append((case, when, None))
            continue
        assert isinstance(outcome.node, Leaf | Const)
        entries.append((case, when, build.cast(physical(outcome.node), kind)))
    key = merged_column(entries, build.null(kind))
    items = [Item(build.known(build.is_null(key)), nulls_first)]
    if kind == "DOUBLE":
        # A NaN is less than any number, and to the engine greater.
        is_nan = build.known(build.is_nan(key))
        items.append(Item(is_nan, not is_descending))
    return (*items, Item(key, is_descending))
