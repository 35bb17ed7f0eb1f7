"""Writes CSV and TSV: flattened records under one header, or other values in a column `value`."""

from __future__ import annotations

import re
from collections.abc import Callable

from shoal.errors import InvalidInput
from shoal.formats.csv.dialect import SPACES, delimiter_of
from shoal.formats.flatten import VALUE, cells_in, columns, columns_in, joined
from shoal.formats.streams import Sink, WriteOptions
from shoal.model import types as t
from shoal.model.fields import id_text, is_id
from shoal.model.text import brief, format_primitive, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data

_NOT_UNIFORM = "CSV output requires uniform records but multiple types encountered (consider 'fuse')"
_NOT_A_RECORD = "CSV output encountered non-record value"


class Writer:
    """Writes values as comma-separated text under one header."""

    _default_delimiter = ","

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out
        chosen = options.csv_delimiter
        self._delimiter = delimiter_of(self._default_delimiter if chosen is None else chosen)
        self._needs_quotes = re.compile(rf'["\r\n{re.escape(self._delimiter)}]|\A[{SPACES}]|\A\\\.\Z').search
        self._shape = options.shape
        self._layout: t.Type | None = None
        self._type: t.Type | None = None
        self._cells: Callable[[Data], list[str]] = list
        self._ways: dict[t.Type, Callable[[Data], list[str]]] = {}

    def write(self, value: Value) -> None:
        """Add a row; its columns must be named like those of the first one."""
        if value.type is not self._type:
            self._enter(value)
        self._line(self._cells(value.data))

    def close(self) -> None:
        """Nothing is buffered; without values of a known type there is a header alone."""
        if self._layout is None and self._shape is not None:
            self._line(list(_names(self._shape)))

    def _enter(self, value: Value) -> None:
        """Prepare for rows of this value's type; the first one gives the header."""
        if self._layout is None:
            self._layout = value.type
            self._line(list(_names(value.type)))
        if value.type not in self._ways:
            self._ways[value.type] = _row_text(self._layout_for(value), value.type)
        self._type, self._cells = value.type, self._ways[value.type]

    def _layout_for(self, value: Value) -> t.Type:
        """A type with the columns of the header that holds a value; InvalidInput if there is none."""
        assert self._layout is not None
        names = _names(self._layout)
        if _names(value.type) == names:
            return value.type
        layout = joined(self._layout, value.type)
        if layout is None or _names(layout) != names:
            is_record = isinstance(value.type.under, t.Record)
            raise InvalidInput(_NOT_UNIFORM if is_record else f"{_NOT_A_RECORD}: {brief(value)}")
        return layout

    def _line(self, fields: list[str]) -> None:
        needs_quotes = self._needs_quotes
        fields = ['"' + f.replace('"', '""') + '"' if needs_quotes(f) else f for f in fields]
        self._out.write((self._delimiter.join(fields) + "\n").encode())


class TsvWriter(Writer):
    """Like `Writer`, separated by tabs."""

    _default_delimiter = "\t"


def _names(layout: t.Type) -> tuple[str, ...]:
    under = layout.under
    return columns(under).names if isinstance(under, t.Record) else (VALUE,)


def _row_text(layout: t.Type, typ: t.Type) -> Callable[[Data], list[str]]:
    """The cells of a row of one type, in a layout."""
    cols = columns_in(layout, typ)
    texts = [cell_text(kind) for kind in cols.types]
    return lambda data: [
        "" if cell is None else text(cell) for text, cell in zip(texts, cells_in(layout, cols, data), strict=True)
    ]


_CELL_TEXT: t.MemoKey[Callable[[Data], str]] = t.MemoKey("cells of CSV")


def cell_text(typ: t.Type) -> Callable[[Data], str]:
    """How data of a type reads in a cell; nulls are the caller's."""
    text = typ.memo.get(_CELL_TEXT)
    if text is None:
        text = typ.memo[_CELL_TEXT] = id_text if is_id(typ) else _cell_text(typ.under)
    return text


def _cell_text(typ: t.Type) -> Callable[[Data], str]:
    match typ:
        case t.Primitive():
            if typ is t.STRING:
                return str
            if typ in t.FLOATS:
                return lambda data: format_primitive(typ, data).removesuffix(".")
            return lambda data: format_primitive(typ, data)
        case t.Union():
            return lambda data: "" if data[1] is None else cell_text(typ.types[data[0]])(data[1])
        case t.Enum():
            return lambda data: typ.symbols[data]
        case t.Array() | t.Set() | t.Map():
            empty = {t.Array: "[]", t.Set: "|[]|", t.Map: "|{}|"}[type(typ)]  # a cell has no type to keep
            return lambda data: format_value(Value(typ, data)) if data else empty
        case _:
            return lambda data: format_value(Value(typ, data))
