"""Every format, in one table: by name and by media type, with where its code lies.

Code is imported when a format is first used, so that `shoal` starts without Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.options import WriteOptions
from shoal.formats.streams import Sink, Source, Writer
from shoal.model.values import Value

Read = Callable[[Source, ReadOptions], Iterator[Value]]
Write = Callable[[Sink, WriteOptions], Writer]


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `reader`, `writer` and `columns` are `module:name` inside `shoal.formats`."""

    name: str
    reader: str | None
    writer: str | None
    media_types: tuple[str, ...] = ()
    columns: str | None = None
    """Reads straight into typed columns; formats without it go value by value."""

    def load_reader(self) -> Read:
        """The generator function that reads this format."""
        if self.reader is None:
            raise InvalidInput(f"cannot read format {self.name!r} (one of: {', '.join(readable())})")
        return _load(self.reader)  # type: ignore[no-any-return]

    def load_writer(self) -> Write:
        """The class that writes this format."""
        if self.writer is None:
            raise InvalidInput(f"cannot write format {self.name!r} (one of: {', '.join(writable())})")
        return _load(self.writer)  # type: ignore[no-any-return]

    def load_columns(self) -> Any | None:
        """The function that reads this format into columns, if it has one."""
        return None if self.columns is None else _load(self.columns)


FORMATS: tuple[Format, ...] = (
    Format("zson", "zson:read", "zson:Writer", ("application/x-zson",)),
    Format("zng", "zng:read", "zng:Writer", ("application/x-zng",)),
    Format("json", "json_rows:read", "json_text:Writer", ("application/json",), "json_columns:read"),
    Format("ndjson", "json_rows:read", "json_text:LineWriter", ("application/x-ndjson",), "json_columns:read"),
    Format("zjson", "zjson:read", "zjson:Writer", ("application/x-zjson",)),
    Format("vng", "vng:read", "vng:Writer", ("application/x-vng",)),
    Format("csv", "csv_rows:read", "csv_rows:Writer", ("text/csv",), "csv_columns:read"),
    Format("tsv", "csv_rows:read_tsv", "csv_rows:TsvWriter", ("text/tab-separated-values",), "csv_columns:read_tsv"),
    Format("zeek", "zeek:read", "zeek:Writer", ("application/x-zeek",)),
    Format("parquet", "parquet:read", "parquet:Writer", ("application/x-parquet",), "parquet:read_columns"),
    Format("arrows", "arrow:read", "arrow:Writer", ("application/vnd.apache.arrow.stream",), "arrow:read_columns"),
    Format("line", "line:read", "line:Writer", ("application/x-line",)),
    Format("text", None, "text:Writer"),
    Format("table", None, "table:Writer"),
    Format("lake", None, "lake:Writer"),
    Format("null", None, "null:Writer"),
)

_BY_NAME = {f.name: f for f in FORMATS}
_BY_MEDIA_TYPE = {m: f for f in FORMATS for m in f.media_types}


def by_name(name: str) -> Format:
    """The format of this name."""
    if name not in _BY_NAME:
        raise InvalidInput(f"no format named {name!r} (one of: {', '.join(sorted(_BY_NAME))})")
    return _BY_NAME[name]


def by_media_type(media_type: str) -> Format:
    """The format of this media type; parameters such as a charset are ignored."""
    essence = media_type.partition(";")[0].strip().lower()
    if essence not in _BY_MEDIA_TYPE:
        raise InvalidInput(f"no format has media type {essence!r} (one of: {', '.join(sorted(_BY_MEDIA_TYPE))})")
    return _BY_MEDIA_TYPE[essence]


def readable() -> list[str]:
    """Names of the formats that can be read."""
    return sorted(f.name for f in FORMATS if f.reader)


def writable() -> list[str]:
    """Names of the formats that can be written."""
    return sorted(f.name for f in FORMATS if f.writer)


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"shoal.formats.{module}"), name)
