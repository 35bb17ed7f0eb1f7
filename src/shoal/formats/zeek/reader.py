"""Zeek logs. Fields and types come in separate directives, and each stays in force until the next one of its kind.

Columns named `a.b` are the fields of a nested record, even if other columns stand between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.bad_records import BadRecords
from shoal.formats.limits import at, cell_costs, check_fields, check_text
from shoal.formats.streams import Source, decode_utf8, read_lines
from shoal.formats.zeek.cells import EMPTY, PARSERS, PORT, UNSET, ZENUM, unescape
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data, normal_set

_TYPES: dict[str, t.Type] = {
    "addr": t.IP,
    "bool": t.BOOL,
    "count": t.UINT64,
    "double": t.FLOAT64,
    "enum": ZENUM,
    "int": t.INT64,
    "interval": t.DURATION,
    "port": PORT,
    "string": t.STRING,
    "subnet": t.NET,
    "time": t.TIME,
}
_CONTAINER = re.compile(r"(set|vector)\[(.*)\]")


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of a log; fails at once if the first line is not a directive."""
    header = _Header()
    bad = BadRecords(source, options)
    rows: _Rows | None = None
    started = False
    for number, line in enumerate(read_lines(source, options), bad.first_line):
        if not line:
            continue
        try:
            if line.startswith(b"#"):
                check_text(line, options, "directive", cell_costs(header.separator or " "))
                header.take(decode_utf8(line, "directive"))
                started, rows = True, None
                continue
            if not started:
                raise InvalidInput("not a zeek log: the first line does not begin with '#'")
            rows = rows or _Rows(header)
            check_text(line, options, "record", rows.costs)
        except InvalidInput as e:
            raise at(f"line {number}", e) from None
        try:
            value = rows.value(line.decode(errors="surrogateescape"))
        except InvalidInput as e:
            yield from bad.take(number, line, e)
        else:
            yield value


def check_beginning(head: bytes) -> None:
    """Refuse what cannot be a log: its first line may be longer than the bytes that detection looks at."""
    if head.lstrip() and not head.lstrip().startswith(b"#"):
        raise InvalidInput("line 1: not a zeek log: the first line does not begin with '#'")


@dataclass(slots=True)
class _Header:
    """The directives in force."""

    separator: str | None = None
    """None until it is given: then directives are split at blanks and values at tabs."""
    set_separator: str = ","
    empty_field: str = EMPTY
    unset_field: str = UNSET
    path: str = ""
    fields: list[str] = field(default_factory=list)
    types: list[t.Type] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Put one directive in force."""
        if re.match(r"#separator\s", line):
            self.separator = _one_character("separator", unescape(line[11:].strip(" ")))
            return
        name, *words = line[1:].split(self.separator or " ")
        match name:
            case "set_separator":
                self.set_separator = _one_character(name, unescape(_only_word(name, words)))
            case "empty_field":
                self.empty_field = _only_word(name, words)
            case "unset_field":
                self.unset_field = _only_word(name, words)
            case "path":
                path = _only_word(name, words)
                self.path = "" if path == "-" else path
            case "fields":
                self.fields = _some_words(name, words)
            case "types":
                self.types = [_parse_type(word) for word in _some_words(name, words)]


def _only_word(name: str, words: list[str]) -> str:
    if len(words) != 1:
        raise InvalidInput(f"bad zeek header: #{name} takes one value, found {len(words)}")
    return words[0]


def _some_words(name: str, words: list[str]) -> list[str]:
    if not words:
        raise InvalidInput(f"bad zeek header: #{name} is empty")
    return words


def _one_character(name: str, text: str) -> str:
    if len(text) != 1:
        raise InvalidInput(f"bad zeek header: #{name} must be one character, found {text!r}")
    return text


def _parse_type(text: str) -> t.Type:
    text = text.strip()
    container = _CONTAINER.fullmatch(text)
    name = container[2].strip() if container else text
    if name not in _TYPES:
        raise InvalidInput(f"unknown zeek type: {text}")
    if not container:
        return _TYPES[name]
    return t.set_of(_TYPES[name]) if container[1] == "set" else t.array(_TYPES[name])


_Shape = tuple[Any, ...]
"""The columns that make up a record: a number for a column, a shape for a nested record."""


class _Rows:
    """Makes records of lines under one header."""

    def __init__(self, header: _Header) -> None:
        check_fields(len(header.fields), "#fields")
        if not header.fields or len(header.fields) != len(header.types):
            raise InvalidInput("bad types/fields definition in zeek header")
        self._names = header.fields
        self._separator = header.separator or "\t"
        self.costs = cell_costs(self._separator, header.set_separator)
        self._parsers = [_column_parser(kind, header) for kind in header.types]
        typ, self._shape = _nest(header)
        has_path = bool(header.path) and "_path" not in header.fields
        self._type = t.record([("_path", t.STRING), *typ.fields]) if has_path else typ
        self._lead = (header.path,) if has_path else ()
        self._is_flat = all(isinstance(part, int) for part in self._shape)

    def value(self, line: str) -> Value:
        """The record of one line."""
        cells = line.split(self._separator)
        if len(cells) != len(self._parsers):
            raise InvalidInput("too few values" if len(cells) < len(self._parsers) else "too many values")
        try:
            data = [parse(cell) for parse, cell in zip(self._parsers, cells, strict=True)]
        except InvalidInput:
            raise self._blame(cells) from None
        if self._is_flat:
            return Value(self._type, (*self._lead, *data))
        return Value(self._type, self._lead + _assemble(self._shape, data))

    def _blame(self, cells: list[str]) -> InvalidInput:
        """The error of the first cell that cannot be read, with the name of its column."""
        for name, parse, cell in zip(self._names, self._parsers, cells, strict=True):
            try:
                parse(cell)
            except InvalidInput as e:
                return InvalidInput(f"field {name!r}: {e}")
        raise AssertionError(cells)


def _assemble(shape: _Shape, data: list[Data]) -> tuple[Data, ...]:
    return tuple([data[part] if isinstance(part, int) else _assemble(part, data) for part in shape])


def _column_parser(typ: t.Type, header: _Header) -> Callable[[str], Data]:
    unset = header.unset_field
    elem = t.inner_of(typ)
    parse = PARSERS[(elem or typ).under]

    def primitive(text: str) -> Data:
        return None if text == unset else parse(text)

    def sequence(text: str) -> Data:
        if text == unset:
            return None
        if text == header.empty_field:
            return ()
        items = [primitive(item) for item in text.split(header.set_separator)]
        return normal_set(elem, items) if elem is not None and isinstance(typ, t.Set) else tuple(items)

    return primitive if elem is None else sequence


def _nest(header: _Header) -> tuple[t.Record, _Shape]:
    """The record type of the columns, nested where their names are dotted, and where its parts come from."""
    tree: dict[str, Any] = {}
    for number, name in enumerate(header.fields):
        *parents, last = name.split(".")
        if len(parents) >= t.MAX_DEPTH:
            raise InvalidInput(f"type nests deeper than {t.MAX_DEPTH} levels")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise InvalidInput(f"field {name!r} is inside a field that is not a record")
        if last in node:
            raise InvalidInput(f"duplicate field {name!r}")
        node[last] = number
    return _nested_type(tree, header.types)


def _nested_type(tree: dict[str, Any], types: list[t.Type]) -> tuple[t.Record, _Shape]:
    fields: list[tuple[str, t.Type]] = []
    shape: list[Any] = []
    for name, node in tree.items():
        if isinstance(node, int):
            fields.append((name, types[node]))
            shape.append(node)
        else:
            inner, inner_shape = _nested_type(node, types)
            fields.append((name, inner))
            shape.append(inner_shape)
    return t.record(fields), tuple(shape)
