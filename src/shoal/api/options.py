"""The options of readers and of queries. Those of readers say how they travel over HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from shoal.errors import InvalidInput
from shoal.model.node import frozen

MIB = 1 << 20
_P = TypeVar("_P")
MAX_VALUE_SIZE = 128 * 1024 * 1024
"""The longest line, token or frame that a reader takes in one piece, unless told otherwise."""


def _option(default: Any, param: str, about: str, *, at_most: int = 0) -> Any:
    """A field of ReadOptions, which travels over HTTP as a parameter of the URL."""
    return field(default=default, metadata={"param": param, "about": about, "at_most": at_most})


@frozen
class ReadOptions:
    """Options of a reader. Each reader uses those that concern it."""

    csv_delimiter: str | None = _option(None, "csv.delim", "the character between the cells of a line of CSV")
    """None means the format's own: a comma for csv, a tab for tsv."""
    zng_validate: bool = _option(True, "zng.validate", "F to trust ZNG input")
    max_value_size: int = _option(MAX_VALUE_SIZE, "zng.readmax", "most bytes of a value", at_most=MAX_VALUE_SIZE)
    threads: int = _option(1, "zng.threads", "most threads that decode columns", at_most=os.cpu_count() or 1)


DEFAULT_READ = ReadOptions()


def read_params() -> dict[str, tuple[str, type]]:
    """The parameters of read options: what each is about, and the type of its value."""
    return {f.metadata["param"]: (f.metadata["about"], _type(f.default)) for f in fields(ReadOptions)}


def encode_read_options(options: ReadOptions) -> dict[str, str | None]:
    """Read options as parameters of a URL; None for those that have their default."""
    values = {f: getattr(options, f.name) for f in fields(options)}
    return {f.metadata["param"]: None if value == f.default else _encode(value) for f, value in values.items()}


def _encode(value: str | bool | int) -> str:
    return ("T" if value else "F") if isinstance(value, bool) else str(value)


def decode_read_options(params: Mapping[str, str]) -> ReadOptions:
    """The read options in the parameters of a URL. Numbers above the limit of an option count as the limit."""
    given = [f for f in fields(ReadOptions) if f.metadata["param"] in params]
    return ReadOptions(**{f.name: _decode(params[f.metadata["param"]], f.default, **f.metadata) for f in given})


def _decode(text: str, default: Any, param: str, about: str, at_most: int) -> Any:
    kind = _type(default)
    if kind is bool and text.upper() in ("T", "F"):
        return text.upper() == "T"
    if kind is int and text.isdecimal() and int(text) > 0:
        return min(int(text), at_most)
    if kind is str and len(text) == 1:
        return text
    raise InvalidInput(f"invalid value {text!r} for parameter {param} ({_EXPECTED[kind]})")


def _type(default: Any) -> type:
    return str if default is None else type(default)


_EXPECTED: dict[type, str] = {bool: "T or F", int: "a number", str: "one character"}


@frozen
class Memory:
    """How many bytes an operator may hold before it goes to disk; `aggregate` bounds one collected value."""

    sort: int = 128 * MIB
    aggregate: int = 1024 * MIB
    fuse: int = 128 * MIB
    groups: int = 1_000_000
    is_strict: bool = False
    """Whether what cannot go to disk, such as one collected value, fails when it grows beyond that."""


@dataclass(slots=True)
class Statistics:
    """What a run has read and kept so far."""

    bytes_read: int = 0
    bytes_matched: int = 0
    records_read: int = 0
    records_matched: int = 0


class Position(Protocol):
    """Something that is being read."""

    def tell(self) -> int:
        """How many bytes of it were read."""


class Watch(Protocol):
    """Passes what is in an open file on, and may look at how far it was read."""

    def __call__(self, file: Position, values: Iterator[_P], /) -> Iterator[_P]: ...
