"""CSV and TSV. Each cell decides its own type, so every row may be of another record type.

A quote may open and close anywhere in a field: `a,"b" x` reads as `a` and `b x`. So a record ends
at the first line end with an even number of quotes before it, and a line without any quote is
split as it stands, which is the fast path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.go_floats import FIRST_CHARACTERS, parse_cell
from shoal.formats.limits import LIGHT, Costs, cell_costs, check_fields, check_lines, check_text
from shoal.formats.streams import Source, decode_utf8, read_lines
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data

BOM = b"\xef\xbb\xbf"
SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
BOOLS = {
    **dict.fromkeys(("t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("f", "F", "false", "FALSE", "False"), False),
}
_KNOWN_ROW_TYPES, _KNOWN_FIELDS = 4096, 1_000_000
"""How many types of rows are remembered, and how many fields they may have in all."""


def delimiter_of(chosen: str | None, default: str) -> str:
    """The delimiter to use, if it can be one."""
    delimiter = default if chosen is None else chosen
    if len(delimiter) != 1 or delimiter in '"\r\n\ufffd' or "\ud800" <= delimiter <= "\udfff":
        raise InvalidInput(f"invalid CSV delimiter {delimiter!r}: need one character, no quote or line end")
    return delimiter


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The records of comma-separated text whose first line names the fields."""
    return _read(source, delimiter_of(options.csv_delimiter, ","), options)


def read_tsv(source: Source, options: ReadOptions) -> Iterator[Value]:
    """Like `read`, separated by tabs."""
    return _read(source, delimiter_of(options.csv_delimiter, "\t"), options)


def check_header(head: bytes, delimiter: str) -> None:
    """Refuse what is not a header: any text would pass as a table of one column, and broken JSON as names."""
    line = head.partition(b"\n")[0]
    if delimiter.encode() not in line:
        raise InvalidInput(f"line 1: delimiter {delimiter!r} not found")
    if line.lstrip(b"\xef\xbb\xbf \t")[:1] in (b"{", b"["):
        raise InvalidInput("line 1: begins like JSON, not like a header")


def _read(source: Source, delimiter: str, options: ReadOptions) -> Iterator[Value]:
    records = _records(source, _Splitter(delimiter), options)
    header = next(records, None)
    if header is None:
        return
    check_fields(len(header[1]), f"line {header[0]}")
    rows = _Rows(unique_names(header[1]))
    for number, cells in records:
        yield rows.value(number, cells)


def unique_names(names: list[str]) -> list[str]:
    """Names of columns; a repeated one gets the first number that makes it unique."""
    taken = set(names)
    repeats: dict[str, int] = {}
    out = []
    for name in names:
        number = repeats.get(name, 0)
        unique = name
        while number and (unique := f"{name}{number}") in taken:
            number += 1
        taken.add(unique)
        repeats[name] = number + 1
        out.append(unique)
    return out


def _records(source: Source, splitter: _Splitter, options: ReadOptions) -> Iterator[tuple[int, list[str]]]:
    """The cells of each record, and the line it starts at. Blank lines are no records."""
    costs = cell_costs(splitter.delimiter)
    lines = enumerate(_lines(source, options, costs), 1)
    for number, line in lines:
        if '"' in line:
            text = _whole_record(number, line, lines, options)
            check_text(text, options, f"line {number}", costs)
            yield number, splitter.split_quoted(text)
        elif line:
            if len(line) > LIGHT:
                check_fields(line.count(splitter.delimiter), f"line {number}")
            yield number, splitter.split(line)


def _lines(source: Source, options: ReadOptions, costs: Costs) -> Iterator[str]:
    for number, line in enumerate(read_lines(source, options, costs), 1):
        if number == 1:
            line = line.removeprefix(BOM)
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = decode_utf8(line, f"line {number}")
        yield text.removesuffix("\r")


def _whole_record(number: int, line: str, lines: Iterator[tuple[int, str]], options: ReadOptions) -> str:
    """The text of a record, with the lines that its quoted fields run over."""
    parts = [line]
    size = len(line)
    opened = number if line.count('"') % 2 else 0
    while opened:
        number, line = next(lines, (0, ""))
        if not number:
            raise InvalidInput(f"line {opened}: quote is not closed")
        parts.append(line)
        size += len(line) + 1
        check_lines(size, len(parts), options, f"line {opened}")
        if line.count('"') % 2:
            opened = 0
    return "\n".join(parts)


class _Splitter:
    """Cuts records at a delimiter. Spaces before a field do not count, unless they delimit."""

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        self._spaces = "" if delimiter in SPACES else SPACES
        outside = re.escape(delimiter)
        # The quantifiers are possessive: no text makes the search go back.
        self._field = re.compile(rf'((?:[^"{outside}]++|"(?:[^"]++|"")*+")*+)(?:{outside}|\Z)')

    def split(self, line: str) -> list[str]:
        """The fields of a line without quotes."""
        fields = line.split(self.delimiter)
        if not self._spaces or (" " not in line and line.isprintable()):
            return fields
        return [field.lstrip(self._spaces) for field in fields]

    def split_quoted(self, text: str) -> list[str]:
        """The fields of a record with quotes, without their quotes."""
        # The pattern matches once more, with nothing, at the end of a text that ends in a field.
        fields = self._field.findall(text)
        if not text.endswith(self.delimiter):
            fields.pop()
        return [
            _unquote(field.lstrip(self._spaces)) if '"' in field else field.lstrip(self._spaces) for field in fields
        ]


_SECTION = re.compile(r'"((?:[^"]++|"")*+)"')


def _unquote(field: str) -> str:
    if field[0] == '"' and field.find('"', 1) == len(field) - 1:
        return field[1:-1]
    return _SECTION.sub(lambda m: m[1].replace('""', '"'), field)


class _Rows:
    """Makes records of cells."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._types: dict[tuple[t.Type, ...], t.Record] = {}
        self._most_types = min(_KNOWN_ROW_TYPES, 1 + _KNOWN_FIELDS // len(names))

    def value(self, number: int, cells: list[str]) -> Value:
        """The record that starts at line `number`."""
        if len(cells) != len(self._names):
            raise InvalidInput(f"line {number}: expected {len(self._names)} fields, found {len(cells)}")
        kinds: list[t.Type] = []
        data: list[Data] = []
        for cell in cells:
            # Spelt out here rather than called: this loop is where reading spends its time.
            if not cell:
                kinds.append(t.NULL)
                data.append(None)
            elif cell[0] in FIRST_CHARACTERS and (parsed := parse_cell(cell)) is not None:
                kinds.append(t.FLOAT64)
                data.append(parsed)
            elif cell in BOOLS:
                kinds.append(t.BOOL)
                data.append(BOOLS[cell])
            else:
                kinds.append(t.STRING)
                data.append(cell)
        return Value(self._type(tuple(kinds)), tuple(data))

    def _type(self, kinds: tuple[t.Type, ...]) -> t.Record:
        typ = self._types.get(kinds)
        if typ is None:
            if len(self._types) >= self._most_types:
                self._types.clear()
            typ = self._types[kinds] = t.record(zip(self._names, kinds, strict=True))
        return typ
