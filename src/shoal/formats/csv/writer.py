"""Writes CSV and TSV: flattened records under one header."""

from __future__ import annotations

import re
from collections.abc import Callable

from shoal.errors import InvalidInput
from shoal.formats.csv.reader import SPACES, delimiter_of
from shoal.formats.flatten import Columns, columns, row
from shoal.formats.streams import Sink, WriteOptions
from shoal.model import types as t
from shoal.model.text import brief, format_primitive, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data


class Writer:
    """Writes records as comma-separated text under one header."""

    _default_delimiter = ","

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out
        self._delimiter = delimiter_of(options.csv_delimiter, self._default_delimiter)
        self._needs_quotes = re.compile(rf'["\r\n{re.escape(self._delimiter)}]|\A[{SPACES}]|\A\\\.\Z').search
        self._names: tuple[str, ...] | None = None
        self._type: t.Type | None = None
        self._columns = Columns((), (), (), True)
        self._texts: list[Callable[[Data], str]] = []

    def write(self, value: Value) -> None:
        """Add a row; its columns must be named like those of the first one."""
        if value.type is not self._type:
            self._enter(value)
        cells = row(self._columns, value.data)
        self._line(["" if d is None else text(d) for text, d in zip(self._texts, cells, strict=True)])

    def close(self) -> None:
        """Nothing is buffered."""

    def _enter(self, value: Value) -> None:
        """Prepare for rows of this value's type; the first one gives the header."""
        under = value.type.under
        if not isinstance(under, t.Record):
            raise InvalidInput(f"CSV output encountered non-record value: {brief(value)}")
        cols = columns(under)
        if self._names is None:
            self._names = cols.names
            self._line(list(cols.names))
        elif cols.names != self._names:
            raise InvalidInput("CSV output requires uniform records but multiple types encountered (consider 'fuse')")
        self._type, self._columns = value.type, cols
        self._texts = [cell_text(kind) for kind in cols.types]

    def _line(self, fields: list[str]) -> None:
        needs_quotes = self._needs_quotes
        fields = ['"' + f.replace('"', '""') + '"' if needs_quotes(f) else f for f in fields]
        self._out.write((self._delimiter.join(fields) + "\n").encode())


class TsvWriter(Writer):
    """Like `Writer`, separated by tabs."""

    _default_delimiter = "\t"


_CELL_TEXT: t.MemoKey[Callable[[Data], str]] = t.MemoKey("cells of CSV")


def cell_text(typ: t.Type) -> Callable[[Data], str]:
    """How data of a type reads in a cell; nulls are the caller's."""
    text = typ.memo.get(_CELL_TEXT)
    if text is None:
        text = typ.memo[_CELL_TEXT] = _cell_text(typ.under)
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
