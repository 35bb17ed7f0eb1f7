"""Values as flat rows: nested fields become columns `a.b`. An empty nested record leaves no column at all.

Unions stay as they are, even unions of records: their shape differs from value to value. A value that is not a record
has one column, `value`. Rows of several types share columns if their fields have the same names: `layout` joins the
types, and a null stands for a record of nulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data


class Columns(NamedTuple):
    """The flat columns of a record type; `nested` holds, for each field, its own columns if it is a record."""

    names: tuple[str, ...]
    types: tuple[t.Type, ...]
    nested: tuple[Columns | None, ...]
    is_flat: bool
    """Whether no field is a record, so that a row is the record's data as it is."""


VALUE = "value"
"""The column of values that are not records."""
_COLUMNS: t.MemoKey[Columns] = t.MemoKey("columns")


def columns(typ: t.Record) -> Columns:
    """The columns of a record type, worked out once a type."""
    cached = typ.memo.get(_COLUMNS)
    if cached is None:
        cached = typ.memo[_COLUMNS] = _columns(typ)
    return cached


def _columns(typ: t.Record) -> Columns:
    names: list[str] = []
    kinds: list[t.Type] = []
    nested: list[Columns | None] = []
    for field in typ.fields:
        under = field.type.under
        if isinstance(under, t.Record):
            inner = columns(under)
            names += [f"{field.name}.{name}" for name in inner.names]
            kinds += inner.types
            nested.append(inner)
        else:
            names.append(field.name)
            kinds.append(field.type)
            nested.append(None)
    return Columns(tuple(names), tuple(kinds), tuple(nested), all(inner is None for inner in nested))


def row(cols: Columns, data: Data) -> Sequence[Data]:
    """The data of one record, a cell a column; a null record gives null cells."""
    if data is None:
        return (None,) * len(cols.names)
    if cols.is_flat:
        return data  # type: ignore[no-any-return]
    cells: list[Data] = []
    for inner, item in zip(cols.nested, data, strict=True):
        if inner is None:
            cells.append(item)
        else:
            cells += row(inner, item)
    return cells


# ---- rows of several types


def joined(one: t.Type, other: t.Type) -> t.Type | None:
    """A type whose columns serve values of both types; None if their fields have different names.

    It is one of the types wherever they are not records: what a cell holds is up to each row.
    """
    one, other = one.under, other.under
    if one is t.NULL or other is t.NULL:
        return other if one is t.NULL else one
    if isinstance(one, t.Record) and isinstance(other, t.Record):
        if one is other:
            return one
        if [f.name for f in one.fields] != [f.name for f in other.fields]:
            return None
        fields = [joined(mine.type, theirs.type) for mine, theirs in zip(one.fields, other.fields, strict=True)]
        kinds = [kind for kind in fields if kind is not None]
        return t.record_of(tuple(f.name for f in one.fields), tuple(kinds)) if len(kinds) == len(fields) else None
    return None if isinstance(one, t.Record) or isinstance(other, t.Record) else one


def columns_in(layout: t.Type, typ: t.Type) -> Columns:
    """The columns of a layout that `joined` gave, for rows of one of the joined types."""
    layout, under = layout.under, typ.under
    if not isinstance(layout, t.Record):
        return Columns((VALUE,), (typ,), (None,), False)
    if layout is under:
        return columns(layout)
    kinds = [f.type for f in under.fields] if isinstance(under, t.Record) else [t.NULL] * len(layout.fields)
    parts = [
        columns_in(field.type, kind) if isinstance(field.type.under, t.Record) else None
        for field, kind in zip(layout.fields, kinds, strict=True)
    ]
    types = (part.types if part is not None else (kind,) for part, kind in zip(parts, kinds, strict=True))
    return Columns(columns(layout).names, tuple(chain.from_iterable(types)), tuple(parts), not any(parts))


def cells_in(layout: t.Type, cols: Columns, data: Data) -> Sequence[Data]:
    """The data of one value, a cell a column of `columns_in`."""
    return row(cols, data) if isinstance(layout.under, t.Record) else (data,)


def flatten(value: Value) -> tuple[list[str], list[t.Type], list[Data]]:
    """Names, types and data of the columns of a record value."""
    typ = value.type.under
    if not isinstance(typ, t.Record):
        raise TypeError(f"flatten takes records, not {typ.kind}")
    cols = columns(typ)
    return list(cols.names), list(cols.types), list(row(cols, value.data))
