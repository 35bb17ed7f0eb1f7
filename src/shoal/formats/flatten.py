"""Records as flat rows: nested fields become columns `a.b`. An empty nested record leaves no column at all.

Unions stay as they are, even unions of records: their shape differs from value to value.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def flatten(value: Value) -> tuple[list[str], list[t.Type], list[Data]]:
    """Names, types and data of the columns of a record value."""
    typ = value.type.under
    if not isinstance(typ, t.Record):
        raise TypeError(f"flatten takes records, not {typ.kind}")
    cols = columns(typ)
    return list(cols.names), list(cols.types), list(row(cols, value.data))
