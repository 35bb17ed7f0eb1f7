"""Writes Zeek logs: a header for each run of records with the same columns and path."""

from __future__ import annotations

import re

from shoal.errors import InvalidInput
from shoal.formats.flatten import Columns, columns, row
from shoal.formats.streams import Sink, WriteOptions
from shoal.formats.zeek.cells import EMPTY, PORT, UNSET, ZENUM, Style, Text, cell_text
from shoal.model import types as t
from shoal.model.text import brief, format_type
from shoal.model.values import Value

_UNWRITABLE = re.compile(r"[\t\r\n]")


class Writer:
    """Writes records as a log; a new header starts where their columns or their `_path` change."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out
        self._path = ""
        self._type: t.Type | None = None
        self._columns: Columns | None = None
        self._path_column: int | None = None
        self._texts: list[Text] = []
        self._has_started = False

    def write(self, value: Value) -> None:
        """Add a record."""
        head = "" if value.type is self._type else self._enter(value)
        assert self._columns is not None
        cells = list(row(self._columns, value.data))
        path = cells.pop(self._path_column) or "" if self._path_column is not None else ""
        head = self._path_directive(path) + head
        line = "\t".join([text(cell) for text, cell in zip(self._texts, cells, strict=True)])
        if line.startswith("#"):
            line = "\\x23" + line[1:]  # or it would read as a directive
        self._out.write(f"{self._preamble()}{head}{line}\n".encode())

    def close(self) -> None:
        """Nothing is buffered."""

    def _enter(self, value: Value) -> str:
        """Prepare for records of this value's type; the directives it needs, if its columns are new."""
        under = value.type.under
        if not isinstance(under, t.Record):
            raise InvalidInput(f"zeek output encountered non-record value: {brief(value)}")
        cols = columns(under)
        is_new = self._columns is None or cols[:2] != self._columns[:2]
        directives = self._prepare(cols) if is_new else ""
        self._type, self._columns = value.type, cols
        return directives

    def _prepare(self, cols: Columns) -> str:
        shown = list(zip(cols.names, cols.types, strict=True))
        path = next((i for i, (n, k) in enumerate(shown) if n == "_path" and k.under is t.STRING), None)
        if path is not None:
            del shown[path]
        words = [_type_name(kind) for _, kind in shown]
        for name, _ in shown:
            _check_writable("field name", name)
        self._path_column = path
        self._texts = [cell_text(kind, Style.LOG) for _, kind in shown]
        return "\t".join(["#fields", *(n for n, _ in shown)]) + "\n" + "\t".join(["#types", *words]) + "\n"

    def _path_directive(self, path: str) -> str:
        if path == self._path:
            return ""
        _check_writable("_path", path)
        self._path = path
        return f"#path\t{path or '-'}\n"

    def _preamble(self) -> str:
        if self._has_started:
            return ""
        self._has_started = True
        return f"#separator \\x09\n#set_separator\t,\n#empty_field\t{EMPTY}\n#unset_field\t{UNSET}\n"


def _check_writable(what: str, text: str) -> None:
    if _UNWRITABLE.search(text):
        raise InvalidInput(f"{what} {text!r} cannot be represented in zeek format")


_TYPE_NAMES: dict[t.Type, str] = {
    **dict.fromkeys(t.INT_RANGES, "int"),
    **dict.fromkeys(t.FLOATS, "double"),
    t.UINT64: "count",
    t.DURATION: "interval",
    t.TIME: "time",
    t.DATE: "string",
    t.BOOL: "bool",
    t.STRING: "string",
    t.IP: "addr",
    t.NET: "subnet",
    t.NULL: "string",
}


def _type_name(typ: t.Type) -> str:
    """What zeek calls a type."""
    elem = t.inner_of(typ)
    if elem is None:
        return _primitive_name(typ, typ)
    return f"{'set' if isinstance(typ.under, t.Set) else 'vector'}[{_primitive_name(elem, typ)}]"


def _primitive_name(typ: t.Type, column: t.Type) -> str:
    if typ in (PORT, ZENUM):
        return "port" if typ is PORT else "enum"
    if isinstance(typ.under, t.Enum):
        return "enum"
    if isinstance(typ.under, t.Decimal):
        return "double"
    if typ.under not in _TYPE_NAMES:
        raise InvalidInput(f"type {format_type(column)}: type cannot be represented in zeek format")
    return _TYPE_NAMES[typ.under]
