"""Orders in SQL: what rows are sorted by, so that the engine, and Python in merging, order as the interpreter does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, Sql
from shoal.engines.sql.expressions import value
from shoal.engines.sql.frames import Frame, merged_column
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, is_known_error
from shoal.engines.sql.types import physical
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import MISSING

_WHOLE = frozenset((*t.SIGNED, t.DURATION, t.TIME, t.UINT8, t.UINT16, t.UINT32))
_BYTEWISE = (t.STRING, t.BYTES, t.IP, t.BOOL)


@dataclass(frozen=True, slots=True)
class Item:
    """One of the columns that rows are sorted by. It has no nulls, but where an item before it says so."""

    sql: Sql
    is_descending: bool = False


Order: TypeAlias = tuple[Item, ...]


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
    found = [[(case.when, o.when, o.node) for case in f.cases for o in value(expr, case.node)] for f in frames]
    kind = _kind({node.type.under for nodes in found for _, _, node in nodes if not _is_nothing(node)})
    return tuple(
        _items(frame, nodes, kind, is_descending, nulls_first) for frame, nodes in zip(frames, found, strict=True)
    )


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


def _items(
    frame: Frame, nodes: Sequence[tuple[Cond, Cond, Node]], kind: str, is_descending: bool, nulls_first: bool
) -> Order:
    entries: list[tuple[Cond, Sql | None]] = []
    for when, also, node in nodes:
        if _is_nothing(node):
            entries.append((build.both(when, also), None))
            continue
        assert isinstance(node, Leaf | Const)
        entries.append((build.both(when, also), build.cast(physical(node), kind)))
    key = merged_column(frame, entries, kind)
    items = [Item(build.known(build.is_null(key)), nulls_first)]
    if kind == "DOUBLE":
        # A NaN is less than any number, and to the engine greater.
        is_nan = build.known(build.is_nan(key))
        items.append(Item(is_nan, not is_descending))
    return (*items, Item(key, is_descending))
