"""A search in every string of a Parquet file, as a condition in SQL.

In Zed such a search is one word. In SQL it takes a condition for each string, including those in structs and lists;
here it is generated from the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pyarrow
from pyarrow import parquet


class Dialect(NamedTuple):
    """The syntax in which the dialects differ."""

    quote: str
    any_of: Callable[[str, str, str], str]
    """Whether a condition holds for any element of a list: the list, the name of an element, the condition."""


DUCKDB = Dialect('"', lambda items, item, holds: f"list_bool_or(list_transform({items}, lambda {item}: {holds}))")
SPARK = Dialect("`", lambda items, item, holds: f"exists({items}, {item} -> {holds})")


def condition(file: Path, word: str, dialect: Dialect) -> str:
    """The condition that any string of a row contains a word, in any case."""
    search = _Search(word, dialect)
    return " OR ".join(search.fields("", parquet.read_schema(file)))


class _Search:
    def __init__(self, word: str, dialect: Dialect) -> None:
        self._word = word
        self._dialect = dialect
        self._items = map("x{}".format, count())

    def fields(self, prefix: str, fields: pyarrow.Schema | pyarrow.StructType) -> Iterator[str]:
        quote = self._dialect.quote
        for field in fields:
            yield from self._holds(f"{prefix}{quote}{field.name}{quote}", field.type)

    def _holds(self, path: str, kind: pyarrow.DataType) -> Iterator[str]:
        if pyarrow.types.is_string(kind) or isinstance(kind, pyarrow.JsonType):
            yield f"{path} ILIKE '%{self._word}%'"
        elif pyarrow.types.is_struct(kind):
            yield from self.fields(f"{path}.", kind)
        elif pyarrow.types.is_list(kind):
            item = next(self._items)
            if inner := " OR ".join(self._holds(item, kind.value_type)):
                yield self._dialect.any_of(path, item, inner)
