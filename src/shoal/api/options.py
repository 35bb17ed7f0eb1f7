"""Options of readers and queries, and how read options are sent over HTTP."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
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
_ARRAYS = ("records", "value")
_ARROW_TYPES = ("plain", "zed")
_ODD_CODECS = frozenset(("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"))
"""Codecs of Python that are not encodings of files."""


def _option(
    default: Any, param: str, about: str, *, at_most: int = 0, choices: tuple[str, ...] = (), longest: int = 1
) -> Any:
    """A field of ReadOptions that is sent over HTTP as a query parameter. Text has at most `longest` characters."""
    facts = {"param": param, "about": about, "at_most": at_most, "choices": choices, "longest": longest}
    return field(default=default, metadata=facts)


@frozen
class ReadOptions:
    """Options of a reader; each format uses those that apply to it."""

    csv_delimiter: str | None = _option(None, "csv.delim", "CSV field delimiter")
    """None: the default of the format, a comma for csv and a tab for tsv."""
    json_array: str | None = _option(
        None, "json.array", "records or value: whether an array of records is loaded as records", choices=_ARRAYS
    )
    """None: as records by a load, as one value by anything else."""
    arrow_types: str | None = _option(
        None, "arrow.types", "plain or zed: whether Arrow and Parquet types keep names as in Zed", choices=_ARROW_TYPES
    )
    """None: plain, so that a timestamp in microseconds is a time. `shoal zq` asks for the types of Zed."""
    encoding: str | None = _option(None, "encoding", "encoding of text, such as latin-1 or utf-16", longest=40)
    """None: UTF-8, or what a byte order mark says. Formats that are not text ignore it."""
    zng_validate: bool = _option(True, "zng.validate", "F to trust ZNG input")
    max_value_size: int = _option(
        MAX_VALUE_SIZE, "zng.readmax", "size limit of a value in bytes", at_most=MAX_VALUE_SIZE
    )
    max_memory: int = _option(MAX_MEMORY, "read.memory", "memory limit of reading, in bytes", at_most=_ANY)
    """About what decoding and writing may take: one value at most half of it. A service has a limit of its own."""
    max_ratio: int = _option(MAX_RATIO, "read.ratio", "how many times its size input may expand", at_most=_ANY)
    threads: int = _option(1, "zng.threads", "number of threads that decode columns", at_most=os.cpu_count() or 1)

    def __post_init__(self) -> None:
        for f in fields(self):
            value, choices = getattr(self, f.name), f.metadata["choices"]
            if choices and value is not None and value not in choices:
                raise InvalidInput(f"{f.metadata['param']}: {value!r} is not one of {', '.join(choices)}")
        if self.encoding is not None:
            _check_encoding(self.encoding)


def _check_encoding(name: str) -> None:
    try:
        "a".encode(name)  # fails for codecs that are not for text, such as base64
        is_known = codecs.lookup(name).name.replace("-", "_") not in _ODD_CODECS
    except (LookupError, ValueError):
        is_known = False
    if not is_known:
        raise InvalidInput(f"encoding: {name!r} is not known (such as utf-8, utf-16, latin-1, cp1252, shift_jis)")


DEFAULT_READ = ReadOptions()


_DEFAULT_LOAD = ReadOptions(json_array="records")


def for_load(options: ReadOptions) -> ReadOptions:
    """The options with the defaults of a load."""
    if options is DEFAULT_READ:
        return _DEFAULT_LOAD  # most loads are small, and every microsecond counts for them
    return options if options.json_array is not None else replace(options, json_array="records")


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
    return ReadOptions(**{f.name: _decode(params[f.metadata["param"]], f.default, **f.metadata) for f in given})


def _decode(
    text: str, default: Any, param: str, about: str, at_most: int, choices: tuple[str, ...], longest: int
) -> Any:
    kind = _type(default)
    if kind is bool and text.upper() in ("T", "F"):
        return text.upper() == "T"
    if kind is int and text.isdecimal() and int(text) > 0:
        return min(int(text), at_most)
    if kind is str and (choices or 0 < len(text) <= longest):
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
