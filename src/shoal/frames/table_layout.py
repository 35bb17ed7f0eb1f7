"""Lays values out in the columns of a table, and reads them back.

Records of one shape have a column for each field and no others. Records of several shapes share columns and have a
column `$shape` with the exact type of each row: a field of one type keeps it, nested records are merged, several
types become a union. Values that are not records are in a column `$value`, without `$shape` if all have one type.
If a field has such a name, our columns get one more `$`, so that the longest name is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from shoal.errors import InvalidInput
from shoal.frames.python_values import column_type, fit
from shoal.model import types as t
from shoal.model.parse import parse_type
from shoal.model.text import format_type, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data

_OURS = re.compile(r"\$+(?:shape|value)")
Change = Callable[[Data], Data]


class Column(NamedTuple):
    """The data of one column, one item per row; None if a row lacks the field."""

    name: str
    type: t.Type | None
    """None for a column of Python objects in a data frame."""
    data: Sequence[Any]


class Layout(NamedTuple):
    """Values in columns."""

    columns: list[Column]
    shapes: Column | None
    """The type of each row as text; None if it follows from the columns."""
    bare: str
    """The name of the column for values that are not records."""

    def value_in(self, column: Column, row: Value) -> Value | None:
        """The value of a row in a column, in its own type."""
        if isinstance(row.type.under, t.Record):
            return row.field(column.name)
        return row if column.name == self.bare else None


def is_ours(name: str) -> bool:
    """Whether a column of this name may be `$shape` or `$value`."""
    return _OURS.fullmatch(name) is not None


def _depth(word: str, names: Iterable[str]) -> int:
    """The number of `$` in the longest of our names that end with `word`."""
    return max((len(n) - len(word) for n in names if is_ours(n) and n.endswith(word)), default=0)


# ---- values to columns


def lay_out(values: Sequence[Value], with_shapes: bool = False) -> Layout:
    """Lay values out in columns; with shapes if they are needed, or always if `with_shapes`."""
    kinds = list(dict.fromkeys(v.type for v in values))
    names = {f.name for kind in kinds if isinstance(kind.under, t.Record) for f in kind.under.fields}
    bare = "$" * (_depth("value", names) + 1) + "value"
    fields = {kind: _fields(kind, bare) for kind in kinds}
    columns = [_column(name, values, fields) for name in dict.fromkeys(n for own in fields.values() for n in own)]
    if not with_shapes and (not kinds or (len(kinds) == 1 and _is_implied(kinds[0], values))):
        return Layout(columns, None, bare)
    shapes = [format_type(v.type) if v.data is not None else format_value(v) for v in values]
    return Layout(columns, Column("$" * (_depth("shape", names) + 1) + "shape", t.STRING, shapes), bare)


def _is_implied(kind: t.Type, values: Sequence[Value]) -> bool:
    """Whether the type of all values follows from the columns alone."""
    if not isinstance(kind.under, t.Record):
        return True
    plain = isinstance(kind, t.Record) and kind.fields and not any(is_ours(f.name) for f in kind.fields)
    return bool(plain) and all(v.data is not None for v in values)


def _fields(kind: t.Type, bare: str) -> dict[str, t.Type]:
    return dict(kind.under.fields) if isinstance(kind.under, t.Record) else {bare: kind}


def _column(name: str, values: Sequence[Value], fields: dict[t.Type, dict[str, t.Type]]) -> Column:
    typ = _fused(own[name] for own in fields.values() if name in own)
    moves = {kind: _move(kind, name, _spread(own[name], typ)) for kind, own in fields.items() if name in own}
    data = [moves[v.type](v.data) if v.data is not None and v.type in moves else None for v in values]
    return Column(name, typ, data)


def _move(kind: t.Type, name: str, change: Change) -> Change:
    if not isinstance(kind.under, t.Record):
        return change
    index = kind.under.index[name]
    return lambda data: change(data[index])


def _fused(types: Iterable[t.Type]) -> t.Type:
    """One type for the fields of several shapes."""
    kinds = [kind for kind in dict.fromkeys(types) if kind is not t.NULL]
    if len(kinds) < 2:
        return kinds[0] if kinds else t.NULL
    if not all(isinstance(kind.under, t.Record) for kind in kinds):
        return t.union(kinds)
    fields: dict[str, list[t.Type]] = {}
    for kind in kinds:
        for name, typ in kind.under.fields:  # type: ignore[attr-defined]
            fields.setdefault(name, []).append(typ)
    return t.record((name, _fused(kinds)) for name, kinds in fields.items())


def _spread(typ: t.Type, fused: t.Type) -> Change:
    """Converts data of a type to its fused type."""
    if typ is fused or typ is t.NULL:
        return lambda data: data
    if isinstance(fused, t.Union):
        tag = fused.tags[typ]
        return lambda data: None if data is None else (tag, data)
    assert isinstance(typ.under, t.Record)
    assert isinstance(fused, t.Record)
    indexes = [typ.under.index.get(name) for name, _ in fused.fields]
    moves = [
        (lambda data: None) if i is None else _move(typ, f.name, _spread(typ.under.fields[i].type, f.type))
        for i, f in zip(indexes, fused.fields, strict=True)
    ]
    return lambda data: None if data is None else tuple([move(data) for move in moves])


# ---- columns to values


def rows(columns: Sequence[Column]) -> Iterator[Value]:
    """The values in columns, from any source."""
    names = [c.name for c in columns]
    shape_name, bare = ("$" * _depth(word, names) + word for word in ("shape", "value"))
    shapes = next((c for c in columns if c.name == shape_name), None)
    if shapes is not None and (kinds := _kinds(shapes)) is not None:
        return _shaped_rows([c for c in columns if c is not shapes], shapes, kinds, bare)
    typed = [_with_type(column) for column in columns]
    if names == [bare]:
        typ = typed[0].type
        return (Value(typ, data) for data in typed[0].data)  # type: ignore[arg-type]
    record = t.record((c.name, c.type) for c in typed)  # type: ignore[misc]
    return (Value(record, data) for data in zip(*(c.data for c in typed), strict=True))


def _with_type(column: Column) -> Column:
    if column.type is not None:
        return column
    typ = column_type(column.data)
    return Column(column.name, typ, [fit(typ, obj) for obj in column.data])


def _kinds(shapes: Column) -> dict[str, Value | t.Type] | None:
    """The types, or typed nulls, that the shapes name; None if the column has other data under this name."""
    try:
        return {text: _kind(text) for text in dict.fromkeys(shapes.data)}
    except (InvalidInput, TypeError, AttributeError):
        return None


def _kind(text: str) -> Value | t.Type:
    if text == "null" or text.startswith("null("):
        return Value(parse_type(text[5:-1] or "null"), None)
    return parse_type(text)


def _shaped_rows(columns: list[Column], shapes: Column, kinds: dict[str, Value | t.Type], bare: str) -> Iterator[Value]:
    fields = {text: _fields(kind, bare) for text, kind in kinds.items() if isinstance(kind, t.Type)}
    _check_columns(columns, shapes, fields)
    by_name = {column.name: column for column in columns}
    takes = {text: [_take(by_name[name], typ) for name, typ in own.items()] for text, own in fields.items()}
    for i, text in enumerate(shapes.data):
        kind = kinds[text]
        if isinstance(kind, Value):
            yield kind
        elif isinstance(kind.under, t.Record):
            yield Value(kind, tuple([take(i) for take in takes[text]]))
        else:
            yield Value(kind, takes[text][0](i))


def _check_columns(columns: list[Column], shapes: Column, fields: dict[str, dict[str, t.Type]]) -> None:
    """Fail if columns were added or removed in a way that would silently lose data."""
    advice = f"(drop the column {shapes.name!r} to read the rest as plain records)"
    for name in sorted({name for own in fields.values() for name in own} - {c.name for c in columns}):
        raise InvalidInput(f"{shapes.name!r} names a field {name!r}, but there is no such column {advice}")
    for column in columns:
        without = {text for text in dict.fromkeys(shapes.data) if column.name not in fields.get(text, ())}
        if without and any(d is not None and s in without for d, s in zip(column.data, shapes.data, strict=True)):
            raise InvalidInput(f"column {column.name!r} has values in rows without such a field {advice}")


def _take(column: Column, typ: t.Type) -> Callable[[int], Data]:
    """A function that reads a field of a type from a row."""
    data = column.data
    if column.type is typ:
        return data.__getitem__
    if column.type is None:
        return lambda i: fit(typ, data[i])
    change = _gathered(column.name, typ, column.type)
    return lambda i: change(data[i])


def _gathered(name: str, typ: t.Type, fused: t.Type) -> Change:
    """Converts data of a fused type back to the type."""
    if typ is fused:
        return lambda data: data
    if typ is t.NULL or fused is t.NULL:
        return lambda data: None
    if isinstance(fused, t.Union) and typ in fused.tags:
        return lambda data: None if data is None else data[1]
    if isinstance(typ.under, t.Record) and isinstance(fused, t.Record) and typ.under.index.keys() <= fused.index.keys():
        moves = [
            _move(fused, f.name, _gathered(name, f.type, fused.fields[fused.index[f.name]].type))
            for f in typ.under.fields
        ]
        return lambda data: None if data is None else tuple([move(data) for move in moves])
    raise InvalidInput(f"column {name!r} has type {format_type(fused)}, not {format_type(typ)}")
