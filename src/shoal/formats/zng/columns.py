"""ZNG into columns: the values of some frames by their types, field by field, with no object for a value.

The ends of values are found one after the other, since a value begins where the last one ends. From there on numpy
reads one field of all values of a type at a time: the tags tell where the next field begins. What is not as it should
be, or would take more memory than the values one by one, goes to the value decoder, which knows what is wrong with it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import MANY_FIELDS, MANY_SHAPES, Batch, Part, Piece, Rows
from shoal.formats.columns.parts import merged, rows_by_code
from shoal.formats.columns.physical import arrow_type, list_array, to_arrow
from shoal.formats.columns.projection import Paths, inside, is_whole, project_shape, records_of
from shoal.formats.limits import LIGHT, chunk_size
from shoal.formats.metering import LEAST_VALUE, give
from shoal.formats.streams import Source
from shoal.formats.zng.stream import CONTROL, END_OF_STREAM, MALFORMED, TYPES, VALUES, Frames, describe, frame_limit
from shoal.formats.zng.types import TypeTable
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data, Decoder, decode_type, decoder, encode_type, read_uvarint, valid_net

_SLICE = 8 << 20
"""Bytes of values that are decoded at a time."""
_FEW = 64
"""Values of a type that are decoded one by one: to begin with a column costs as much."""
_LONG = 256
"""Elements up to which arrays are taken apart side by side."""
_PADDING = bytes(16)
"""Behind the values, so that eight bytes can be read anywhere."""

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class Irregular(Exception):
    """Values that are malformed, or not worth columns: the value decoder takes them."""


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


class _Bodies(NamedTuple):
    """Where bodies of one type begin and end, ascending. That of a null is empty."""

    starts: Rows
    stops: Rows
    nulls: Mask | None
    """Which of them are null; None if none are."""

    @property
    def sizes(self) -> Rows:
        return self.stops - self.starts

    def present(self) -> _Bodies:
        """Those that are not null."""
        return self if self.nulls is None else self.picked(np.flatnonzero(~self.nulls))

    def picked(self, rows: Rows) -> _Bodies:
        """Some of them."""
        return _Bodies(self.starts[rows], self.stops[rows], None if self.nulls is None else self.nulls[rows])


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
        self._data = b"".join([*payloads, _PADDING])
        self._bytes: Bytes = np.frombuffer(self._data, np.uint8)
        shape = (len(self._data) - 7,)
        self._words: np.ndarray[Any, np.dtype[np.uint64]] = np.ndarray(shape, "<u8", self._data, strides=(1,))
        """The eight bytes from each byte on."""
        self._buffer = pa.py_buffer(self._data)
        self._types, self._fields, self._is_checked = types, fields, is_checked
        ends = np.cumsum([len(payload) for payload in payloads])
        self._starts: Rows = np.concatenate(
            [np.array(own, np.int64) + start for own, start in zip(starts, [0, *ends[:-1].tolist()], strict=True)]
        )
        self._stops: Rows = np.append(self._starts[1:], ends[-1])

    def batch(self) -> Batch:
        """All values."""
        idents, places = self._uvarints(self._starts)
        tags, places = self._uvarints(places)
        nulls = tags == 0
        groups = rows_by_code(idents)
        few = sum(len(rows) for _, rows in groups if len(rows) < _FEW)
        if len(groups) > MANY_SHAPES or (self._fields is None and few > _FEW and 4 * few > len(idents)):
            raise Irregular
        parts = []
        for ident, rows in groups:
            own = nulls[rows]
            bodies = _Bodies(places[rows], self._stops[rows], own if own.any() else None)
            parts.append(self._part(ident, rows, bodies))
        return Batch(tuple(parts if self._fields is not None else merged(parts)), len(idents))

    def _part(self, ident: int, rows: Rows, bodies: _Bodies) -> Part:
        shape, decode, is_foreign = self._types.entry(ident)
        if self._fields is None and shape.size > MANY_FIELDS:
            raise Irregular
        if is_foreign or len(rows) < _FEW:
            return self._few(shape, decode, rows, bodies)
        return Part(project_shape(shape, self._fields), self._column(shape, bodies, self._fields), rows)

    def _few(self, shape: t.Type, decode: Decoder, rows: Rows, bodies: _Bodies) -> Part:
        """Values that are decoded one by one."""
        data = self._decoded(decode, bodies)
        projected = project_shape(shape, self._fields)
        return Part(projected, to_arrow(projected, [_projected(shape, d, self._fields) for d in data]), rows)

    # ---- tags

    def _uvarints(self, places: Rows) -> tuple[Rows, Rows]:
        """The varints at some places, and the places after them."""
        numbers = self._bytes[places].astype(np.int64)
        places = places + 1
        rows = np.flatnonzero(numbers > 127)
        if len(rows):
            numbers[rows] &= 127
            shift = 7
            while len(rows):
                if shift > 49:
                    raise Irregular
                more = self._bytes[places[rows]].astype(np.int64)
                places[rows] += 1
                numbers[rows] |= (more & 127) << shift
                rows = rows[more > 127]
                shift += 7
        return numbers, places

    def _tagged(self, places: Rows) -> _Bodies:
        """The tagged bodies at some places."""
        tags, starts = self._uvarints(places)
        nulls = tags == 0
        if nulls.any():
            return _Bodies(starts, starts + np.maximum(tags - 1, 0), nulls)
        return _Bodies(starts, starts + tags - 1, None)

    def _fields_of(self, typ: t.Record, bodies: _Bodies) -> list[_Bodies]:
        """The fields of records, none of which is null."""
        out = []
        places = bodies.starts
        for _ in typ.fields:
            field = self._tagged(places)
            out.append(field)
            places = field.stops
        if (places != bodies.stops).any():
            raise Irregular
        return out

    def _elements(self, bodies: _Bodies) -> tuple[Rows, _Bodies]:
        """How many elements each array has, and all of them."""
        counts = np.zeros(len(bodies.starts), np.int64)
        active = np.flatnonzero(bodies.stops > bodies.starts)
        places = bodies.starts[active]
        steps: list[tuple[Rows, _Bodies]] = []
        while len(active) and len(steps) < _LONG:
            elements = self._tagged(places)
            if (elements.stops > bodies.stops[active]).any():
                raise Irregular
            steps.append((active, elements))
            counts[active] += 1
            rest = np.flatnonzero(elements.stops < bodies.stops[active])
            active, places = active[rest], elements.stops[rest]
        long = [(row, self._split(place, bodies.stops[row])) for row, place in zip(active, places, strict=True)]
        for row, elements in long:
            counts[row] += len(elements.starts)
        firsts = np.cumsum(counts) - counts
        pieces = [(firsts[rows] + step, elements) for step, (rows, elements) in enumerate(steps)]
        pieces += [(firsts[row] + _LONG + np.arange(len(elements.starts)), elements) for row, elements in long]
        return counts, _placed(pieces, int(counts.sum()))

    def _split(self, start: int, stop: int) -> _Bodies:
        """The elements of one long array."""
        data, pos = self._data, int(start)
        starts, stops, nulls = array("q"), array("q"), bytearray()
        while pos < stop:
            tag, pos = read_uvarint(data, pos)
            starts.append(pos)
            pos += tag - 1 if tag else 0
            stops.append(pos)
            nulls.append(not tag)
        if pos != stop:
            raise Irregular
        is_null = np.frombuffer(nulls, bool)
        return _Bodies(
            np.frombuffer(starts, np.int64), np.frombuffer(stops, np.int64), is_null if is_null.any() else None
        )

    # ---- columns

    def _column(self, typ: t.Type, bodies: _Bodies, paths: Paths | None = None) -> pa.Array:
        """The column of bodies; of records, that of the fields at some paths."""
        under = typ.under
        match under:
            case t.Record():
                return self._records(under, bodies, None if is_whole(under, paths) else paths)
            case t.Array():
                counts, elements = self._elements(bodies)
                return list_array(arrow_type(under), counts, self._column(under.elem, elements), _mask(bodies.nulls))
            case t.Union():
                return self._unions(under, bodies)
            case t.Error():
                return self._column(under.inner, bodies)
            case t.Enum():
                return _array(self._unsigned(bodies, len(under.symbols) - 1).astype(np.int32), bodies.nulls)
            case t.Primitive():
                return self._primitives(under, bodies)
        return to_arrow(under, self._decoded(decoder(under), bodies))

    def _decoded(self, decode: Decoder, bodies: _Bodies) -> list[Data]:
        bounds = zip(bodies.starts.tolist(), bodies.stops.tolist(), strict=True)
        if bodies.nulls is None:
            return [decode(self._data, *each) for each in bounds]
        return [
            None if null else decode(self._data, *each)
            for each, null in zip(bounds, bodies.nulls.tolist(), strict=True)
        ]

    def _records(self, typ: t.Record, bodies: _Bodies, paths: Paths | None) -> pa.Array:
        present = bodies.present()
        columns = []
        for f, field in zip(typ.fields, self._fields_of(typ, present), strict=True):
            within = None if paths is None else inside(paths, f.name)
            if within is None or within:
                columns.append(_spread(self._column(f.type, field, within), bodies.nulls))
            elif self._is_checked:
                self._check(f.type, field)
        return records_of(project_shape(typ, paths), columns, len(bodies.starts), _mask(bodies.nulls))

    def _unions(self, typ: t.Union, bodies: _Bodies) -> pa.Array:
        present = bodies.present()
        tags = self._tagged(present.starts)
        inner = self._tagged(tags.stops)
        codes = self._signed(t.INT64, tags)
        is_known = (codes >= 0) & (codes < len(typ.types))
        if tags.nulls is not None or not is_known.all() or (inner.stops != present.stops).any():
            raise Irregular
        # A null of no type is the null of the union itself.
        nulls = np.ones(len(bodies.starts), bool)
        rows = np.arange(len(nulls)) if bodies.nulls is None else np.flatnonzero(~bodies.nulls)
        nulls[rows] = codes == typ.tags.get(t.NULL, -1)
        columns = [pa.array(_scattered(codes, rows, len(nulls)).astype(np.int16), mask=nulls)]
        for tag, member in enumerate(typ.types):
            own = np.flatnonzero(codes == tag)
            column, places = self._column(member, inner.picked(own)), np.full(len(nulls), -1)
            places[rows[own]] = np.arange(len(own))
            columns.append(column.take(pa.array(places, mask=places < 0)))
        mask = pa.array(nulls) if nulls.any() else None
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type(typ)), mask=mask)

    def _primitives(self, typ: t.Primitive, bodies: _Bodies) -> pa.Array:
        nulls = bodies.nulls
        if typ in t.UNSIGNED:
            top = t.INT_RANGES[typ][1]
            return _array(self._unsigned(bodies, top).astype(arrow_type(typ).to_pandas_dtype()), nulls)
        if typ in t.INT_RANGES:
            return _array(self._signed(typ, bodies), nulls)
        if typ in t.FLOATS:
            return _array(self._floats(typ, bodies), nulls)
        if typ is t.BOOL:
            _require(bodies, 1)
            return _array(self._bytes[bodies.starts] != 0, nulls)
        if typ is t.NULL:
            _require(bodies, 0)
            return pa.nulls(len(bodies.starts), arrow_type(t.NULL))
        if typ is t.IP:
            return self._addresses(bodies)
        texts = self._slices(bodies)
        if typ is t.STRING:
            return texts.cast(pa.string())
        return texts if typ is t.BYTES else _translated(texts, _CANONICAL[typ])

    def _unsigned(self, bodies: _Bodies, top: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
        sizes = bodies.sizes
        if len(sizes) and sizes.max() > 8:
            raise Irregular
        numbers: np.ndarray[Any, np.dtype[np.uint64]] = self._words[bodies.starts] & _MASKS[sizes]
        if len(numbers) and int(numbers.max()) > top:
            raise Irregular
        return numbers

    def _signed(self, typ: t.Primitive, bodies: _Bodies) -> np.ndarray[Any, Any]:
        codes = self._unsigned(bodies, (1 << 64) - 1)
        numbers = (codes >> np.uint64(1)).view(np.int64)
        is_negative = (codes & np.uint64(1)).astype(bool)
        if is_negative.any():
            numbers = np.where(is_negative, np.where(codes == 1, _MIN_INT64, -numbers), numbers)
        low, high = t.INT_RANGES[typ]
        if high < 1 << 62 and len(numbers) and not (low <= numbers.min() and numbers.max() <= high):
            raise Irregular
        return numbers.astype(arrow_type(typ).to_pandas_dtype(), copy=False)

    def _floats(self, typ: t.Primitive, bodies: _Bodies) -> np.ndarray[Any, Any]:
        kind = _FLOATS[typ]
        _require(bodies, kind.itemsize)
        bits = self._words[bodies.starts].astype(f"<u{kind.itemsize}")
        return bits.view(kind).astype(arrow_type(typ).to_pandas_dtype(), copy=False)

    def _slices(self, bodies: _Bodies, before: int = 0) -> pa.Array:
        """Bodies as they are, with some bytes before each."""
        count = len(bodies.starts)
        if not count:
            return pa.array([], pa.binary())
        # Every other item is a body; what is between two of them is an item, too.
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2] = bodies.starts - before
        offsets[1::2] = bodies.stops
        if (offsets[1:] < offsets[:-1]).any():
            raise Irregular
        items = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), self._buffer])
        return items.take(_array(np.arange(0, 2 * count, 2, dtype=np.int32), bodies.nulls))

    def _addresses(self, bodies: _Bodies) -> pa.Array:
        sizes = bodies.sizes if bodies.nulls is None else bodies.sizes[~bodies.nulls]
        if ((sizes != 4) & (sizes != 16)).any():
            raise Irregular
        items = self._slices(bodies, before=1)
        validity, offsets, data = items.buffers()
        content = np.frombuffer(data, np.uint8).copy()
        starts = np.frombuffer(offsets, np.int32)[: len(items)]
        if bodies.nulls is not None:
            starts = starts[~bodies.nulls]
        content[starts] = np.where(sizes == 4, 4, 6)
        return pa.BinaryArray.from_buffers(pa.binary(), len(items), [validity, offsets, pa.py_buffer(content)])

    # ---- checks

    def _check(self, typ: t.Type, bodies: _Bodies) -> None:
        """Refuse bodies that the value decoder would refuse; no column is made of them."""
        under = typ.under
        if under in _WIDE:
            if len(bodies.starts) and bodies.sizes.max() > 8:
                raise Irregular
        elif under in _FLOATS:
            _require(bodies, _FLOATS[under].itemsize)
        elif under is t.BOOL:
            _require(bodies, 1)
        elif isinstance(under, t.Record):
            present = bodies.present()
            for f, field in zip(under.fields, self._fields_of(under, present), strict=True):
                self._check(f.type, field)
        elif isinstance(under, t.Array):
            self._check(under.elem, self._elements(bodies)[1])
        elif under is not t.BYTES:
            self._column(under, bodies)


_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""The bits of a number of some bytes."""
_MIN_INT64 = np.int64(-(2**63))
_FLOATS: dict[t.Type, np.dtype[Any]] = {
    t.FLOAT16: np.dtype("<f2"),
    t.FLOAT32: np.dtype("<f4"),
    t.FLOAT64: np.dtype("<f8"),
}
_WIDE = frozenset((t.INT64, t.UINT64, t.TIME, t.DURATION))
"""Numbers of which any eight bytes are one."""
_CANONICAL: dict[t.Type, Callable[[bytes], bytes]] = {
    t.NET: valid_net,
    t.TYPE: lambda body: encode_type(decode_type(body)),
}
"""Types whose bodies are looked at in the value decoder, each distinct one once."""


def _placed(pieces: list[tuple[Rows, _Bodies]], count: int) -> _Bodies:
    """Bodies, each at its place."""
    starts, stops, nulls = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, bool)
    for places, bodies in pieces:
        starts[places], stops[places] = bodies.starts, bodies.stops
        if bodies.nulls is not None:
            nulls[places] = bodies.nulls
    return _Bodies(starts, stops, nulls if nulls.any() else None)


def _require(bodies: _Bodies, size: int) -> None:
    """Refuse bodies of another size."""
    sizes = bodies.sizes if bodies.nulls is None else bodies.sizes[~bodies.nulls]
    if (sizes != size).any():
        raise Irregular


def _mask(nulls: Mask | None) -> pa.Array | None:
    return None if nulls is None else pa.array(nulls)


def _array(items: np.ndarray[Any, Any], nulls: Mask | None) -> pa.Array:
    return pa.array(items, mask=nulls)


def _scattered(items: Rows, rows: Rows, length: int) -> Rows:
    """Items at some rows, and zeros at the others."""
    out = np.zeros(length, np.int64)
    out[rows] = items
    return out


def _spread(column: pa.Array, nulls: Mask | None) -> pa.Array:
    """The column of a field for all records, given that for those that are not null."""
    if nulls is None:
        return column
    places = np.cumsum(~nulls) - 1
    return column.take(pa.array(np.maximum(places, 0), mask=nulls))


def _translated(column: pa.Array, translate: Callable[[bytes], bytes]) -> pa.Array:
    """A column with each distinct item replaced."""
    encoded = column.dictionary_encode()
    items = pa.array([translate(item) for item in encoded.dictionary.to_pylist()], pa.binary())
    return items.take(encoded.indices)


def _projected(typ: t.Type, data: Data, paths: Paths | None) -> Data:
    """The data of a record with just the fields at some paths."""
    under = typ.under
    if paths is None or data is None or is_whole(typ, paths):
        return data
    assert isinstance(under, t.Record)
    fields = zip(under.fields, data, strict=True)
    return tuple(_projected(f.type, d, within) for f, d in fields if (within := inside(paths, f.name)))
