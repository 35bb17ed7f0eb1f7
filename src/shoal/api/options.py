"""Options of readers and queries, and how read options are sent over HTTP."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar

from shoal.errors import InvalidInput
from shoal.model.node import frozen

MIB = 1 << 20
_P = TypeVar("_P")
MAX_VALUE_SIZE = 128 * 1024 * 1024
"""The default limit for the size of one line, token or frame."""
MAX_MEMORY = 4096 * MIB
MAX_RATIO = 1000
"""Honest data that compresses better is rare: deflate ends at 1032, and logs reach a few hundred."""
_ANY = 1 << 62
_LONGEST_TEXT = 100_000
_ODD_CODECS = frozenset(("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"))
"""Codecs of Python that are not encodings of files."""


def _option(
    default: Any,
    param: str,
    about: str,
    placeholder: str = "",
    *,
    at_most: int = 0,
    choices: tuple[str, ...] = (),
    longest: int = _LONGEST_TEXT,
) -> Any:
    """A field of ReadOptions that is sent over HTTP as a query parameter, and shown in the help of commands.

    Text has at most `longest` characters.
    """
    facts = {"param": param, "about": about, "placeholder": placeholder, "at_most": at_most}
    return field(default=default, metadata={**facts, "choices": choices, "longest": longest})


@frozen
class ReadOptions:
    """Options of a reader; each format uses those that apply to it."""

    csv_delimiter: str | None = _option(None, "csv.delim", "CSV field delimiter (default: detected)", "C", longest=1)
    """None: a tab for tsv; for csv it is detected."""
    csv_infer: str | None = _option(
        None,
        "csv.infer",
        "types of CSV by column, by cell, or text only (default: columns for a load, else cells)",
        choices=("columns", "cells", "text"),
    )
    """By column over the whole input, each cell for itself, or not at all. None: `columns` by a load, else `cells`."""
    csv_types: str | None = _option(
        None, "csv.types", "types of CSV columns, such as id=string,price=decimal(10,2),day=date", "LIST"
    )
    csv_null: str | None = _option(
        None, "csv.null", "texts that are null in CSV, such as NA,- (empty cells always are)", "LIST"
    )
    csv_header: str | None = _option(
        None, "csv.header", "first (line), none, or the names of CSV columns, such as id,name", "LIST"
    )
    """None: `first`, the first line names the columns. Otherwise it is data; `none` calls them c0, c1, and so on."""
    csv_quote: str | None = _option(None, "csv.quote", "CSV quote character, or none", "C")
    csv_comment: str | None = _option(None, "csv.comment", "leave out CSV lines that begin with this text", "TEXT")
    csv_skip: int = _option(0, "csv.skip", "leave out this many lines at the start of CSV", "N", at_most=_ANY)
    csv_encoding: str | None = _option(None, "csv.encoding", "encoding of CSV alone, such as latin-1 or utf-16", "NAME")
    csv_ragged: str = _option(
        "error", "csv.ragged", "CSV rows of another length: fill them up, or an error", choices=("fill", "error")
    )
    json_array: str | None = _option(
        None,
        "json.array",
        "records or value: whether an array of records is loaded as records",
        choices=("records", "value"),
    )
    """None: as records by a load, as one value by anything else."""
    arrow_types: str | None = _option(
        None,
        "arrow.types",
        "plain or zed: whether Arrow and Parquet types keep names as in Zed",
        choices=("plain", "zed"),
    )
    """None: plain, so that a timestamp in microseconds is a time. `shoal zq` asks for the types of Zed."""
    encoding: str | None = _option(None, "encoding", "encoding of text, such as latin-1 or utf-16", longest=40)
    """None: UTF-8, or what a byte order mark says. Formats that are not text ignore it."""
    bad: str = _option(
        "fail",
        "bad",
        "records that cannot be read: fail, skip them, or keep them as errors",
        choices=("fail", "skip", "keep"),
    )
    """They fail the input, are left out, or are kept as `error({file,line,text,message})`."""
    zng_validate: bool = _option(True, "zng.validate", "F to trust ZNG input")
    max_value_size: int = _option(
        MAX_VALUE_SIZE, "zng.readmax", "size limit of a value in bytes", at_most=MAX_VALUE_SIZE
    )
    max_memory: int = _option(MAX_MEMORY, "read.memory", "memory limit of reading, in bytes", at_most=_ANY)
    """About what decoding and writing may take: one value at most half of it. A service has a limit of its own."""
    max_ratio: int = _option(MAX_RATIO, "read.ratio", "how many times its size input may expand", at_most=_ANY)
    threads: int = _option(1, "zng.threads", "number of threads that decode columns", at_most=os.cpu_count() or 1)

    def __post_init__(self) -> None:
        for name, param, choices in _CHOICES:
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise InvalidInput(f"{param}: {value!r} is not one of {', '.join(choices)}")
        for param, encoding in (("encoding", self.encoding), ("csv.encoding", self.csv_encoding)):
            if encoding is not None:
                _check_encoding(param, encoding)


def _check_encoding(param: str, name: str) -> None:
    try:
        "a".encode(name)  # fails for codecs that are not for text, such as base64
        is_known = codecs.lookup(name).name.replace("-", "_") not in _ODD_CODECS
    except (LookupError, ValueError):
        is_known = False
    if not is_known:
        raise InvalidInput(f"{param}: {name!r} is not known (such as utf-8, utf-16, latin-1, cp1252, shift_jis)")


_CHOICES = tuple(
    (f.name, f.metadata["param"], f.metadata["choices"]) for f in fields(ReadOptions) if f.metadata["choices"]
)
DEFAULT_READ = ReadOptions()


_DEFAULT_LOAD = ReadOptions(json_array="records", csv_infer="columns")


def for_load(options: ReadOptions) -> ReadOptions:
    """The options with the defaults of a load."""
    if options is DEFAULT_READ:
        return _DEFAULT_LOAD  # most loads are small, and every microsecond counts for them
    return replace(options, json_array=options.json_array or "records", csv_infer=options.csv_infer or "columns")


def read_params() -> dict[str, tuple[str, type]]:
    """The query parameters of read options: description and type of each."""
    return {f.metadata["param"]: (f.metadata["about"], _type(f.default)) for f in fields(ReadOptions)}


def encode_read_options(options: ReadOptions) -> dict[str, str | None]:
    """Encode read options as query parameters; None for defaults."""
    values = {f: getattr(options, f.name) for f in fields(options)}
    return {f.metadata["param"]: None if value == f.default else _encode(value) for f, value in values.items()}


def _encode(value: str | bool | int) -> str:
    return ("T" if value else "F") if isinstance(value, bool) else str(value)


def decode_read_options(params: Mapping[str, str]) -> ReadOptions:
    """Decode query parameters to read options. Numbers above the limit of an option are lowered to it."""
    given = [f for f in fields(ReadOptions) if f.metadata["param"] in params]
    return ReadOptions(**{f.name: _decode(params[f.metadata["param"]], f) for f in given})


def _decode(text: str, option: Field[Any]) -> Any:
    default, param, longest = option.default, option.metadata["param"], option.metadata["longest"]
    kind = _type(default)
    if kind is bool and text.upper() in ("T", "F"):
        return text.upper() == "T"
    if kind is int and text.isdecimal() and (int(text) > 0 or default == 0):
        return min(int(text), option.metadata["at_most"])
    if kind is str and 0 < len(text) <= longest:
        return text
    raise InvalidInput(f"invalid value {text!r} for parameter {param} ({_expected(kind, longest)})")


def _type(default: Any) -> type:
    return str if default is None else type(default)


def _expected(kind: type, longest: int) -> str:
    if kind is str:
        return "one character" if longest == 1 else f"at most {longest} characters"
    return "T or F" if kind is bool else "a number"


@frozen
class Memory:
    """Bytes that an operator may use before it spills to disk; `aggregate` limits one collected value."""

    sort: int = 128 * MIB
    aggregate: int = 1024 * MIB
    fuse: int = 128 * MIB
    groups: int = 1_000_000
    is_strict: bool = False
    """Whether a value that cannot spill, such as one collected value, fails when it exceeds the limit."""
    value: int = 1024 * MIB
    """Bytes of one value that a program makes; beyond that it fails."""


@dataclass(slots=True)
class Statistics:
    """Counts of what a query has read and kept so far."""

    bytes_read: int = 0
    bytes_matched: int = 0
    records_read: int = 0
    records_matched: int = 0


class Position(Protocol):
    """The position in an input."""

    def tell(self) -> int:
        """The number of bytes read."""


class Watch(Protocol):
    """Passes the values of an open file on, and may watch the position in it."""

    def __call__(self, file: Position, values: Iterator[_P], /) -> Iterator[_P]: ...
