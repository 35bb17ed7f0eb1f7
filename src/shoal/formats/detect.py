"""Opens sources of known or unknown format. To detect one, the readers are tried on the first bytes.

The registry says which readers are tried, in which order, and on how many values: JSON that is readable for ten
values wins over ZSON. `line` is never detected, because it accepts everything.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput
from shoal.formats import registry
from shoal.formats.bad_records import is_bad_record
from shoal.formats.compression import beginning, is_zip, unwrap
from shoal.formats.encodings import as_utf8
from shoal.formats.limits import LimitExceeded, at
from shoal.formats.metering import Meter
from shoal.formats.registry import Format, Trial
from shoal.formats.streams import WHOLE, OnDisk, Pieces, Place, Source, peekable
from shoal.lazy import lazy
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats import archives
    from shoal.formats.columns.batches import Piece
else:
    archives = lazy("shoal.formats.archives")

_P = TypeVar("_P", bound="Piece")
_ReadPlain = Callable[[Format, Source, ReadOptions, Place], Iterator[_P]]
_FIRST_LOOK = 1 << 16
_LONGEST_LOOK = 10 << 20
_MOST_BAD = 0.51
"""The share of the first records that are bad, below which input may still be of a format."""
_FIRST_RECORDS = 10
"""How many records show whether input is of a format, if some of them may be bad."""
_ARCHIVES = {"tar": (257, b"ustar"), "7z": (0, b"7z\xbc\xaf\x27\x1c"), "rar": (0, b"Rar!\x1a\x07")}
"""Archives that are not read: where their magic bytes are."""


def read_source(
    source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions(), place: Place = WHOLE
) -> Iterator[Value]:
    """The values in a source, compressed or not; in all members, if it is an archive."""
    return _read(source, format_name, options, place, read_values)


def read_pieces(
    source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions(), place: Place = WHOLE
) -> Iterator[Piece]:
    """The values in a source, in columns where the format has a reader for them."""
    return _read(source, format_name, options, place, _read_columns)


def read_values(entry: Format, plain: Source, options: ReadOptions, place: Place = WHOLE) -> Iterator[Value]:
    """The values of a source of this format, without compression."""
    _check_resumes(entry, options)
    meter = Meter(plain, options, entry.growth, place)
    return meter.values(entry.load_reader()(meter, options))


def _read_columns(entry: Format, plain: Source, options: ReadOptions, place: Place) -> Iterator[Piece]:
    _check_resumes(entry, options)
    read_columns = entry.load_columns()
    meter = Meter(plain, options, entry.growth, place)
    if read_columns is None:
        return meter.single_pieces(entry.load_reader()(meter, options))
    return meter.pieces(read_columns(meter, options))


def read_fields(
    source: Source,
    format_name: str,
    options: ReadOptions,
    fields: Sequence[tuple[str, ...]] | None,
    place: Place = WHOLE,
) -> Iterator[Piece]:
    """The values in a source for who looks at some fields alone, or at all of them: None.

    They come in columns if the format has a reader for them, else value by value. Columns may lack the other fields.
    """

    def read(entry: Format, plain: Source, options: ReadOptions, place: Place) -> Iterator[Piece]:
        if entry.load_columns() is None:
            return read_values(entry, plain, options, place)
        if entry.field_reader is None:
            return _read_columns(entry, plain, options, place)
        _check_resumes(entry, options)
        meter = Meter(plain, options, entry.growth, place)
        return meter.pieces(entry.field_reader()(meter, options, fields))

    return _read(source, format_name, options, place, read)


def _check_resumes(entry: Format, options: ReadOptions) -> None:
    """Refuse to read on after bad records in a format where nothing marks the next record."""
    if options.bad != "fail" and not entry.resumes:
        formats = ", ".join(registry.resumable())
        raise InvalidInput(f"{entry.name} cannot be read past a bad record (-bad {options.bad} is for {formats})")


def _read(source: Source, format_name: str, options: ReadOptions, place: Place, read: _ReadPlain[_P]) -> Iterator[_P]:
    packed = peekable(source)
    if is_zip(beginning(packed)):
        return _read_members(archives.Archive(packed, options), format_name, options, place, read)
    entry, plain = open_source(packed, format_name, options)
    return read(entry, plain, options, place)


def _read_members(
    archive: archives.Archive, format_name: str, options: ReadOptions, place: Place, read: _ReadPlain[_P]
) -> Iterator[_P]:
    """The values of all members of an archive, which have to be of one format."""
    first_name, first = "", None
    for name, member in archive.members():
        try:
            head = member.peek(_FIRST_LOOK)
            if len(head) < _FIRST_LOOK and not head.strip():
                continue  # without values it is of any format
            entry, plain = open_plain(member, format_name, options)
            if first is not None and entry is not first:
                raise InvalidInput(f"is {entry.name}, but {first_name} is {first.name} (unpack the archive)")
            first_name, first = name, entry
            yield from read(entry, plain, options, Place(f"{place.file}: {name}" if place.file else name))
        except InvalidInput as e:
            raise at(f"zip: {name}", e) from None


def open_source(
    source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()
) -> tuple[Format, Source]:
    """The format of a source, named or detected, and its bytes without compression; text in UTF-8."""
    return open_plain(unwrap(source, options.max_ratio), format_name, options)


def open_plain(source: Source, format_name: str, options: ReadOptions) -> tuple[Format, Source]:
    """The format of a source without compression, named or detected, and what to read it from."""
    if format_name == "auto":
        return detect(source, options)
    entry = registry.by_name(format_name)
    if entry.is_binary:
        return entry, _as_needed(entry, source)
    return entry, as_utf8(peekable(source), own_encoding(entry, options) or options.encoding)


def own_encoding(entry: Format, options: ReadOptions) -> str | None:
    """The encoding that options name for this format alone."""
    return options.csv_encoding if entry.is_table else None


def _as_needed(entry: Format, source: Source) -> Source:
    """A source that a reader of this format can read: what was unpacked cannot seek unless it is put on disk."""
    return OnDisk(source) if entry.needs_seek and isinstance(source, Pieces) else source


def detect(source: Source, options: ReadOptions = ReadOptions()) -> tuple[Format, Source]:
    """The format of `source`, and a source to read it from the start."""
    raw = peekable(source)
    head = raw.peek(_FIRST_LOOK)
    _refuse_archives(head)
    entry = _by_magic(head, source)
    if entry is not None:
        return entry, _as_needed(entry, raw)
    text = as_utf8(raw, options.encoding)
    tried = [each for each in registry.formats() if not each.is_binary or text is raw]
    size = _FIRST_LOOK
    while True:
        head = text.peek(size)
        is_complete = len(head) < size
        is_longest = is_complete or size >= _LONGEST_LOOK
        if head.isspace():
            entry = registry.FALLBACK if is_longest else None
        else:
            entry = _by_trial(tried, head, is_complete, is_longest, options, is_raw=text is raw)
        if entry is not None:
            own = own_encoding(entry, options) if text is raw else None
            return entry, text if own is None else as_utf8(raw, own)
        size = min(8 * size, _LONGEST_LOOK)


def _refuse_archives(head: bytes) -> None:
    """Name archives that cannot be read but are easily recognised."""
    name = next((name for name, (start, magic) in _ARCHIVES.items() if head.startswith(magic, start)), None)
    if name is not None:
        raise InvalidInput(f"a {name} archive (unpack it first; zip archives are read as they are)")


def _by_magic(head: bytes, source: Source) -> Format | None:
    entry = registry.by_magic(head)
    can_seek = source.seekable() or isinstance(source, Pieces)
    return entry if entry is not None and (can_seek or not entry.needs_seek) else None


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


def _by_trial(
    tried: list[Format], head: bytes, is_complete: bool, is_longest: bool, options: ReadOptions, is_raw: bool
) -> Format | None:
    """The first format whose reader accepts the head; None if a longer head is needed to decide.

    Of readers that fail further on, the one counts that accepts most of the first records. So lines of JSON with a bad
    one among them are not taken for ZSON.
    """
    trial = _Trial(head, is_complete, replace(options, csv_infer="cells", csv_types=None, bad="fail"), is_raw)
    refusals: dict[str, str] = {}
    likely, least = None, _MOST_BAD
    for entry in tried:
        if entry.trial is None:
            continue
        try:
            trial.read(entry, entry.trial)
            return entry if likely is None or trial.is_better(entry, likely, least) else likely
        except _CutOff:
            return entry if is_longest else None
        except LimitExceeded:
            return entry  # it would be read if it were smaller; reading it says so
        except InvalidInput as e:
            refusals[entry.name] = str(e).removeprefix(f"{entry.name}: ")
        is_meant = entry.resumes and (options.bad != "fail" or entry.trial.resembles(head))
        if is_meant and (share := trial.share_of_bad(entry)) < least:
            likely, least = entry, share
    if likely is not None and options.bad != "fail":
        return likely
    raise _undetected(head, refusals)


class _Trial:
    """Tries readers on the first bytes of a source."""

    def __init__(self, head: bytes, is_complete: bool, options: ReadOptions, is_raw: bool) -> None:
        """A head that is raw may have to be decoded for a format that has an encoding of its own."""
        self._head, self._is_complete, self._options, self._is_raw = head, is_complete, options, is_raw

    def read(self, entry: Format, trial: Trial) -> None:
        """Read some values; raises InvalidInput if the head is not of this format."""
        if trial.check is not None:
            trial.check(self._text(entry), self._options)
        for _ in self._values(entry, self._options, trial.values):
            pass

    def is_better(self, entry: Format, other: Format, share: float) -> bool:
        """Whether a format that accepts the head explains it better than another, given its share of bad records."""
        own = self.share_of_bad(entry)
        is_meant = other.trial is not None and other.trial.resembles(self._head)
        return own < share if is_meant else own <= share

    def share_of_bad(self, entry: Format) -> float:
        """The share of the first records that a reader takes for bad, if it goes on after them."""
        try:
            if entry.trial is not None and entry.trial.check is not None:
                entry.trial.check(self._text(entry), self._options)
            values = list(self._values(entry, replace(self._options, bad="keep"), _FIRST_RECORDS))
        except (_CutOff, InvalidInput):
            return 1
        return sum(is_bad_record(value.type) for value in values) / len(values) if values else 1

    def _values(self, entry: Format, options: ReadOptions, count: int) -> Iterator[Value]:
        text = self._text(entry)
        return islice(read_values(entry, io.BytesIO(text) if self._is_complete else _Head(text), options), count)

    def _text(self, entry: Format) -> bytes:
        encoding = own_encoding(entry, self._options) if self._is_raw else None
        return self._head if encoding is None else self._head.decode(encoding, "ignore").encode(errors="replace")


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
    certain = registry.by_magic(head)
    likely = likely if certain is None else certain.name
    error = InvalidInput(
        f"format detection error (if it is {likely}: {refusals[likely]}; name the format with -i, "
        "or see with -v what each format expects)"
    )
    error.add_note("\n".join(f"\t{name}: {refusals[name]}" for name in sorted(refusals)))
    return error
