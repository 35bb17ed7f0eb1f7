"""ZNG into columns: the values of some frames by their types, field by field, with no object for a value.

The ends of values are found one after the other, since a value begins where the last one ends. From there on numpy
reads one field of all values of a type at a time: the tags tell where the next field begins. What is not as it should
be, or would take more memory than the values one by one, goes to the value decoder, which knows what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import MANY_FIELDS, MANY_SHAPES, Batch, Part, Piece, Rows
from shoal.formats.columns.parts import merged, rows_by_code
from shoal.formats.columns.physical import to_arrow
from shoal.formats.columns.projection import Paths, project_data, project_shape
from shoal.formats.limits import LIGHT, chunk_size
from shoal.formats.metering import LEAST_VALUE, give
from shoal.formats.streams import Source
from shoal.formats.zng.bodies import Bodies, Irregular, TaggedBytes
from shoal.formats.zng.body_columns import ColumnDecoder
from shoal.formats.zng.stream import CONTROL, END_OF_STREAM, MALFORMED, TYPES, VALUES, Frames, describe, frame_limit
from shoal.formats.zng.types import TypeTable
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Decoder, read_uvarint

_SLICE = 8 << 20
"""Bytes of values that are decoded at a time."""
_FEW = 64
"""Values of a type that are decoded one by one: to begin with a column costs as much."""


class _Frame(NamedTuple):
    """A frame of values."""

    start: int
    """Where it is in the input."""
    payload: bytes


# ---- frames


def read(source: Source, options: ReadOptions = DEFAULT_READ, fields: Paths | None = None) -> Iterator[Piece]:
    """The values of all streams, in columns where that is faster.

    Given `fields`, the columns are those of records of just these fields; single values are whole all the same. The
    other fields are checked, and then left alone.
    """
    frames = Frames(source, frame_limit(options))
    run = _Run(source, options, fields)
    is_open = False
    while True:
        start, failure, kind, payload = frames.position, None, END_OF_STREAM, b""
        try:
            frame = frames.next()
            if frame is None and is_open:
                raise InvalidInput("expected the end-of-stream marker, found the end of the input")
            kind, payload = frame or (END_OF_STREAM, b"")
            if kind == TYPES:
                run.types.read_typedefs(payload)
            elif kind == CONTROL:
                payload[0]  # as one that is read has to have an encoding
        except MALFORMED as e:
            failure = e
        if kind == VALUES and failure is None:
            yield from run.add(_Frame(start, payload))
        elif kind != TYPES or failure is not None:
            yield from run.flush()
        if failure is not None:
            raise describe(failure, start, run.has_values)
        if frame is None:
            return
        is_open = kind != END_OF_STREAM
        if not is_open:
            run.types = TypeTable(options)


class _Run:
    """Frames of values that wait for others, so that they are decoded together."""

    def __init__(self, source: Source, options: ReadOptions, fields: Paths | None) -> None:
        self._source, self._options, self._fields = source, options, fields
        self._size = chunk_size(options, _SLICE)
        self._frames: list[_Frame] = []
        self._waiting = 0
        self.types = TypeTable(options)
        """Those of the stream."""
        self.has_values = False
        """Whether a frame of values was read to its end."""

    def add(self, frame: _Frame) -> Iterator[Piece]:
        """Take a frame; what is decoded now."""
        self._frames.append(frame)
        self._waiting += len(frame.payload)
        if self._waiting >= self._size:
            yield from self.flush()

    def flush(self) -> Iterator[Piece]:
        """Decode what waits."""
        frames, self._frames, self._waiting = self._frames, [], 0
        try:
            starts = [_starts(frame.payload) for frame in frames]
        except Irregular:
            yield from self._one_by_one(frames)
            return
        if sum(map(len, starts)) and sum(len(frame.payload) for frame in frames) <= 2 * self._size:
            yield from self._together(frames, starts)
        else:
            for frame, own in zip(frames, starts, strict=True):
                yield from self._in_slices(frame, own)
        self.has_values = self.has_values or bool(frames)

    def _together(self, frames: list[_Frame], starts: list[list[int]]) -> Iterator[Piece]:
        try:
            batch = self._batch([frame.payload for frame in frames], starts)
        except Irregular:
            yield from self._one_by_one(frames)
        else:
            yield batch

    def _in_slices(self, frame: _Frame, starts: list[int]) -> Iterator[Piece]:
        """The values of a large frame, some at a time."""
        begin = 0
        while begin < len(starts):
            first = starts[begin]
            end = int(np.searchsorted(starts, first + self._size, "right"))
            payload = frame.payload[first : starts[end] if end < len(starts) else None]
            try:
                piece = self._batch([payload], [[start - first for start in starts[begin:end]]])
            except Irregular:
                yield from self._one_by_one([_Frame(frame.start, payload)])
            else:
                yield piece
            begin = end

    def _one_by_one(self, frames: list[_Frame]) -> Iterator[Value]:
        for frame in frames:
            try:
                yield from self.types.read_values(frame.payload)
            except MALFORMED as e:
                raise describe(e, frame.start, self.has_values) from None
            self.has_values = True

    def _batch(self, payloads: list[bytes], starts: list[list[int]]) -> Batch:
        give(self._source, LEAST_VALUE * sum(map(len, starts)))  # as much as one by one
        try:
            return _Decoder(payloads, starts, self.types, self._fields, self._options.zng_validate).batch()
        except (*MALFORMED, ValueError, pa.ArrowInvalid):
            raise Irregular from None


def _starts(payload: bytes) -> list[int]:
    """Where the values of a frame begin."""
    starts: list[int] = []
    append = starts.append
    pos, end = 0, len(payload)
    try:
        while pos < end:
            append(pos)
            if payload[pos] > 127:
                pos = read_uvarint(payload, pos)[1]
            else:
                pos += 1
            size = payload[pos]
            if size < 128:
                pos += size or 1
            elif payload[pos + 1] < 128:
                pos += 1 + (size & 127 | payload[pos + 1] << 7)
            else:
                size, pos = read_uvarint(payload, pos)
                if size > LIGHT:
                    raise Irregular
                pos += size - 1
    except (IndexError, InvalidInput):
        raise Irregular from None
    if pos != end:
        raise Irregular
    return starts


# ---- values of some frames


class _Decoder:
    """Decodes the values of some frames, given where they begin."""

    def __init__(
        self,
        payloads: list[bytes],
        starts: list[list[int]],
        types: TypeTable,
        fields: Paths | None,
        is_checked: bool,
    ) -> None:
        self._tagged = TaggedBytes(payloads)
        self._columns = ColumnDecoder(self._tagged, is_checked)
        self._types, self._fields = types, fields
        ends = np.cumsum([len(payload) for payload in payloads])
        self._starts: Rows = np.concatenate(
            [np.array(own, np.int64) + start for own, start in zip(starts, [0, *ends[:-1].tolist()], strict=True)]
        )
        self._stops: Rows = np.append(self._starts[1:], ends[-1])

    def batch(self) -> Batch:
        """All values."""
        idents, places = self._tagged.uvarints(self._starts)
        tags, places = self._tagged.uvarints(places)
        nulls = tags == 0
        groups = _by_ident(idents)
        few = sum(len(rows) for _, rows in groups if len(rows) < _FEW)
        if len(groups) > MANY_SHAPES or (self._fields is None and few > _FEW and 4 * few > len(idents)):
            raise Irregular
        parts = []
        for ident, rows in groups:
            own = nulls[rows]
            bodies = Bodies(places[rows], self._stops[rows], own if own.any() else None)
            parts.append(self._part(ident, rows, bodies))
        return Batch(tuple(parts if self._fields is not None else merged(parts)), len(idents))

    def _part(self, ident: int, rows: Rows, bodies: Bodies) -> Part:
        shape, decode, is_foreign = self._types.entry(ident)
        if self._fields is None and shape.size > MANY_FIELDS:
            raise Irregular
        if is_foreign or len(rows) < _FEW:
            return self._few(shape, decode, rows, bodies)
        return Part(project_shape(shape, self._fields), self._columns.column(shape, bodies, self._fields), rows)

    def _few(self, shape: t.Type, decode: Decoder, rows: Rows, bodies: Bodies) -> Part:
        """Values that are decoded one by one."""
        data = self._columns.decoded(decode, bodies)
        projected = project_shape(shape, self._fields)
        return Part(projected, to_arrow(projected, [project_data(shape, d, self._fields) for d in data]), rows)


def _by_ident(idents: Rows) -> list[tuple[int, Rows]]:
    """Each type number that occurs, and the rows that have it. Small numbers are sorted by their bits."""
    if int(idents.max()) >> 16:
        return rows_by_code(idents)
    order = np.argsort(idents.astype(np.uint16), kind="stable")
    counts = np.bincount(idents)
    numbers = np.flatnonzero(counts)
    ends = np.cumsum(counts[numbers])
    return list(zip(numbers.tolist(), np.split(order, ends[:-1]), strict=True))
