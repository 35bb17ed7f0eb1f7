"""How a table is written: its delimiter, quotes, header and nulls, as options say or as its beginning shows.

The texts of options are lists with commas. An item in double quotes is taken as it is: `-csv.header '"a,b",c'`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.csv.names import extra_name, unique_names
from shoal.model import types as t
from shoal.model.cast import is_castable
from shoal.model.node import frozen
from shoal.model.parse import parse_type
from shoal.model.text import format_type
from shoal.suggestions import did_you_mean

QUOTE = '"'
SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space, as Go has it."""
NONE = "none"
_MOST_NAMES = 20
"""How many names of columns an error lists."""


@frozen
class Dialect:
    """How a table is written."""

    delimiter: str
    quote: str | None
    """None: quotes are characters like any other."""
    names: tuple[str, ...] | None
    """The names of the columns, if they are given."""
    has_header: bool
    """Whether the first record names the columns."""
    nulls: frozenset[str]
    """Texts that are null, the empty one included."""
    types: tuple[tuple[str, t.Type], ...]
    """The types of columns that are given."""
    is_filled: bool
    """Whether records of another length are filled up."""
    is_by_cell: bool
    """Whether each cell has a type of its own, and records are cut by the rule of Zed."""

    def without_nulls(self) -> Dialect:
        """The dialect of a header, in which only what is empty is nothing."""
        return replace(self, nulls=frozenset(("",)))

    def column_names(self, first: list[str]) -> list[str]:
        """The names of all columns, given the first record."""
        if self.names is not None:
            return list(self.names)
        return unique_names(first) if self.has_header else [extra_name(i) for i in range(len(first))]

    def column_types(self, names: list[str]) -> list[t.Type | None]:
        """The given type of each column; InvalidInput if one is given for a column that does not exist."""
        given = dict(self.types)
        missing = next((name for name in given if name not in names), None)
        if missing is not None:
            hint = did_you_mean(missing, names) or f" (columns: {', '.join(names[:_MOST_NAMES])})"
            raise InvalidInput(f"csv.types: no column is called {missing!r}{hint}")
        return [given.get(name) for name in names]


# ---- options


def quote_of(options: ReadOptions) -> str | None:
    """The quote character, if there is one."""
    quote = QUOTE if options.csv_quote is None else options.csv_quote
    if quote == NONE:
        return None
    if len(quote) != 1 or quote in "\r\n\ufffd":
        raise InvalidInput(f"csv.quote: {quote!r} is not one character, nor {NONE}")
    return quote


def delimiter_of(delimiter: str, quote: str | None = QUOTE) -> str:
    """The delimiter itself, if it can be one."""
    if len(delimiter) != 1 or delimiter in "\r\n\ufffd" or delimiter == quote or "\ud800" <= delimiter <= "\udfff":
        raise InvalidInput(f"invalid CSV delimiter {delimiter!r}: need one character, no quote or line end")
    return delimiter


def dialect_of(options: ReadOptions, delimiter: str) -> Dialect:
    """The dialect that options ask for, with a delimiter that is known."""
    header = options.csv_header
    names = None if header in (None, "first", NONE) else tuple(_items("csv.header", header or ""))
    if names is not None and len(set(names)) < len(names):
        raise InvalidInput(f"csv.header: {header!r} names a column twice")
    return Dialect(
        delimiter,
        quote_of(options),
        names,
        header in (None, "first"),
        frozenset(("", *_items("csv.null", options.csv_null or ""))),
        tuple(_parse_types(options.csv_types or "").items()),
        options.csv_ragged == "fill",
        is_by_cell(options),
    )


def is_by_cell(options: ReadOptions) -> bool:
    """Whether each cell has a type of its own."""
    return options.csv_infer in (None, "cells")


def header_text(names: list[str]) -> str:
    """Names of columns as an option."""
    return ",".join(map(_quoted, names))


def types_text(types: Mapping[str, t.Type]) -> str:
    """Types of columns as an option."""
    return ",".join(f"{_quoted(name)}={format_type(typ)}" for name, typ in types.items())


def _quoted(name: str) -> str:
    return QUOTE + name.replace(QUOTE, 2 * QUOTE) + QUOTE


_ITEM = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|\Z)|([^,]*)(?:,|\Z)')


def _items(param: str, text: str) -> Iterator[str]:
    """The items of a list. Blanks around one do not count, unless it is quoted."""
    at = 0
    while at < len(text) or (at and text[at - 1] == ","):
        m = _ITEM.match(text, at)
        if m is None:
            raise InvalidInput(f"{param}: {text[at:]!r} is not a list of texts")
        yield m[2].strip() if m[1] is None else m[1].replace('""', '"')
        if m.end() == at:
            return
        at = m.end()


_TYPED = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^=,]*?))\s*=\s*((?:[^,()]|\([^()]*\))+)(?:,|\Z)')


def _parse_types(text: str) -> dict[str, t.Type]:
    types: dict[str, t.Type] = {}
    at = 0
    while at < len(text):
        m = _TYPED.match(text, at)
        if m is None:
            raise InvalidInput(f"csv.types: {text[at:]!r} is not a list such as id=string,price=float64")
        name = m[2] if m[1] is None else m[1].replace('""', '"')
        if name in types:
            raise InvalidInput(f"csv.types: column {name!r} has two types")
        types[name] = parse_column_type(m[3].strip())
        at = m.end()
    return types


def parse_column_type(text: str) -> t.Type:
    """The type of a column: a primitive type, with a name or not."""
    try:
        typ = parse_type(text)
    except InvalidInput as e:
        raise InvalidInput(f"csv.types: {text!r} is not a type ({e})") from None
    if not is_castable(typ) and typ is not t.NULL:
        raise InvalidInput(
            f"csv.types: {text!r} cannot be the type of a column (such as string, int64, decimal(10,2), date)"
        )
    return typ
