"""Opens sources of known or unknown format. To detect one, the readers are tried on the first bytes.

The registry says which readers are tried, in which order, and on how many values: JSON that is readable for ten
values wins over ZSON. `line` is never detected, because it accepts everything.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.formats.compression import Peekable, unwrap
from shoal.formats.limits import LimitExceeded
from shoal.formats.metering import Meter
from shoal.formats.registry import Format, Trial
from shoal.formats.streams import Source
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece

_FIRST_LOOK = 1 << 16
_LONGEST_LOOK = 10 << 20


def read_source(source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values in a source, compressed or not."""
    entry, plain = open_source(source, format_name, options)
    return read_values(entry, plain, options)


def read_pieces(source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """The values in a source, in columns where the format has a reader for them."""
    entry, plain = open_source(source, format_name, options)
    read_columns = entry.load_columns()
    meter = Meter(plain, options, entry.growth)
    if read_columns is None:
        return meter.single_pieces(entry.load_reader()(meter, options))
    return meter.pieces(read_columns(meter, options))


def read_values(entry: Format, plain: Source, options: ReadOptions) -> Iterator[Value]:
    """The values of a source of this format, without compression."""
    meter = Meter(plain, options, entry.growth)
    return meter.values(entry.load_reader()(meter, options))


def open_source(
    source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()
) -> tuple[Format, Source]:
    """The format of a source, named or detected, and its bytes without compression."""
    plain = unwrap(source, options.max_ratio)
    return detect(plain, options) if format_name == "auto" else (registry.by_name(format_name), plain)


def detect(source: Source, options: ReadOptions = ReadOptions()) -> tuple[Format, Source]:
    """The format of `source`, and a source to read it from the start."""
    peekable = _Seekable(source) if source.seekable() else source if isinstance(source, Peekable) else Peekable(source)
    size = _FIRST_LOOK
    while True:
        head = peekable.peek(size)
        is_complete = len(head) < size
        is_longest = is_complete or size >= _LONGEST_LOOK
        _refuse_other_formats(head)
        entry = _by_magic(head, source.seekable())
        if entry is None and head.isspace():
            entry = registry.FALLBACK if is_longest else None
        elif entry is None:
            entry = _by_trial(head, is_complete, is_longest, options)
        if entry is not None:
            return entry, peekable
        size = min(8 * size, _LONGEST_LOOK)


def _refuse_other_formats(head: bytes) -> None:
    """Name formats that cannot be read but are easily recognised."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput("looks like UTF-16 text (convert it first: iconv -f UTF-16 -t UTF-8)")
    if head.startswith(b"ARROW1"):
        raise InvalidInput("an Arrow file; only Arrow streams and Parquet are read (convert it to one of these)")


class _Seekable:
    """A file whose next bytes can be peeked."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.read, self.seek, self.tell, self.seekable = source.read, source.seek, source.tell, source.seekable

    def peek(self, size: int) -> bytes:
        """The next bytes, without moving."""
        start = self._source.tell()
        parts = []
        while size > 0 and (part := self._source.read(size)):
            parts.append(part)
            size -= len(part)
        self._source.seek(start)
        return b"".join(parts)


def _by_magic(head: bytes, is_seekable: bool) -> Format | None:
    entry = registry.by_magic(head)
    return entry if entry is not None and (is_seekable or not entry.needs_seek) else None


class _CutOff(Exception):
    """A reader needs more than the first bytes."""


class _Head(io.BytesIO):
    """The first bytes of something longer."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data and size != 0:
            raise _CutOff
        return data

    def seekable(self) -> bool:
        return False


def _by_trial(head: bytes, is_complete: bool, is_longest: bool, options: ReadOptions) -> Format | None:
    """The first format whose reader accepts the head; None if a longer head is needed to decide."""
    refusals: dict[str, str] = {}
    for entry in registry.formats():
        if entry.trial is None:
            continue
        try:
            _try_reader(entry, entry.trial, head, is_complete, options)
            return entry
        except _CutOff:
            return entry if is_longest else None
        except LimitExceeded:
            return entry  # it would be read if it were smaller; reading it says so
        except InvalidInput as e:
            refusals[entry.name] = str(e).removeprefix(f"{entry.name}: ")
    raise _undetected(head, refusals)


def _try_reader(entry: Format, trial: Trial, head: bytes, is_complete: bool, options: ReadOptions) -> None:
    """Read some values; raises InvalidInput if the head is not of this format."""
    source = io.BytesIO(head) if is_complete else _Head(head)
    if trial.check is not None:
        trial.check(head, options)
    for _ in islice(read_values(entry, source, options), trial.values):
        pass


def _undetected(head: bytes, refusals: dict[str, str]) -> InvalidInput:
    """The error that names what each reader missed, and the most probable format first."""
    likely = registry.FALLBACK.name
    for entry in reversed(registry.formats()):
        if entry.trial is not None and entry.trial.resembles(head):
            likely = entry.name
        elif entry.magic:
            refusals[entry.name] = "requires seekable input" if entry.has_magic(head) else "no magic number"
        elif entry.undetected:
            refusals[entry.name] = entry.undetected
    error = InvalidInput(
        f"format detection error (if it is {likely}: {refusals[likely]}; name the format with -i, "
        "or see with -v what each format expects)"
    )
    error.add_note("\n".join(f"\t{name}: {refusals[name]}" for name in sorted(refusals)))
    return error
