"""Orders in SQL: what rows are sorted by, so that the engine, and Python in merging, order as the interpreter does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.engines.sql import build
from shoal.engines.sql.build import both, negated
from shoal.engines.sql.expressions import value
from shoal.engines.sql.frames import Case, Frame, Item, Order, merged_column
from shoal.engines.sql.keys import Found, is_missing, is_null, key_sql, keys_of
from shoal.engines.sql.nodes import Const, NotColumnar, Outcome
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import NULL

_WHOLE = frozenset((*t.SIGNED, t.DURATION, t.TIME, t.UINT8, t.UINT16, t.UINT32))
_BYTEWISE = (t.STRING, t.BYTES, t.IP, t.BOOL)


ITEMS_WHEN_SPLIT = 3
"""Of each key, whatever it is."""


def sort_order(op: plan.Sort, frames: Sequence[Frame], is_split: bool = False) -> tuple[Order, ...]:
    """What the rows of each frame are sorted by.

    Where the work is split, others have rows of other types, and what they sort by has to be comparable with this.
    """
    if not op.keys:
        raise NotColumnar("a sort that looks at the data for what to sort by")
    made: list[list[Item]] = [[] for _ in frames]
    for key in op.keys:
        is_descending = (key.order == "desc") != op.reverse
        orders = key_order(key.expr, frames, is_descending, op.nulls_first, is_split)
        for items, found in zip(made, orders, strict=True):
            items.extend(found)
    return tuple(tuple(items) for items in made)


def key_order(
    expr: plan.Expr, frames: Sequence[Frame], is_descending: bool, nulls_first: bool, is_split: bool = False
) -> tuple[Order, ...]:
    """The items of one key. A missing key counts as null."""
    found = [[f for case in frame.cases for o in value(expr, case.node) for f in _found(case, o)] for frame in frames]
    kind = _kind({f.key.type.under for held in found for f in held if not is_null(f.key)})
    if kind is not None:
        return tuple(_items(held, kind, is_descending, nulls_first, is_split) for held in found)
    if is_split:
        raise NotColumnar("keys of several types where the work is split")
    keys = keys_of((f for held in found for f in held), is_descending, nulls_first)
    return tuple(tuple(Item(sql, is_descending) for _, sql in keys.columns(held)) for held in found)


def _found(case: Case, outcome: Outcome) -> Iterator[Found]:
    """A key, or null where it is missing."""
    when, missing = both(case.when, outcome.when), is_missing(outcome.node)
    if missing is not False:
        yield Found(case, both(when, missing), Const(NULL))
    if missing is not True:
        yield Found(case, both(when, negated(missing)), outcome.node)


def _kind(types: set[t.Type]) -> str | None:
    """The one type of SQL in which keys of these types are ordered, if there is one."""
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
    return None


def _items(found: Sequence[Found], kind: str, is_descending: bool, nulls_first: bool, is_split: bool) -> Order:
    """The items of a key of one kind: whether it is null, whether it is NaN, and what it is."""
    entries = [(f.case, f.when, None if is_null(f.key) else build.cast(key_sql(f.key), kind)) for f in found]
    key = merged_column(entries, build.null(kind))
    items = [Item(build.known(build.is_null(key)), nulls_first)]
    if kind == "DOUBLE":
        # A NaN is less than any number, and to the engine greater.
        is_nan = build.known(build.is_nan(key))
        items.append(Item(is_nan, not is_descending))
    elif is_split:
        items.append(Item(build.FALSE.copy(), not is_descending))
    return (*items, Item(key, is_descending))
