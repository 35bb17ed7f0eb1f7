"""Bodies of one ZNG type as an Arrow column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.formats.columns.batches import Rows
from shoal.formats.columns.physical import arrow_type, list_array, to_arrow
from shoal.formats.columns.projection import Paths, inside, is_whole, project_shape, records_of
from shoal.formats.zng.bodies import Bodies, Irregular, Mask, TaggedBytes
from shoal.model import types as t
from shoal.model.zcode import Data, Decoder, decode_type, decoder, encode_type, valid_net

_BINARY = pa.binary()
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


class ColumnDecoder:
    """Makes columns of bodies; raises Irregular, or what Arrow and the value decoder raise, if some are malformed."""

    def __init__(self, tagged: TaggedBytes, is_checked: bool) -> None:
        """Fields that no column is made of are checked all the same, if that is asked for."""
        self._tagged, self._is_checked = tagged, is_checked

    def column(self, typ: t.Type, bodies: Bodies, paths: Paths | None = None) -> pa.Array:
        """The column of bodies; of records, that of the fields at some paths."""
        under = typ.under
        match under:
            case t.Record():
                return self._records(under, bodies, None if is_whole(under, paths) else paths)
            case t.Array():
                counts, elements = self._tagged.elements(bodies)
                return list_array(arrow_type(under), counts, self.column(under.elem, elements), _mask(bodies.nulls))
            case t.Union():
                return self._unions(under, bodies)
            case t.Error():
                return self.column(under.inner, bodies)
            case t.Enum():
                return _array(self._unsigned(bodies, len(under.symbols) - 1).astype(np.int32), bodies.nulls)
            case t.Primitive():
                return self._primitives(under, bodies)
        return to_arrow(under, self.decoded(decoder(under), bodies))

    def decoded(self, decode: Decoder, bodies: Bodies) -> list[Data]:
        """The data of bodies, one by one."""
        bounds = zip(bodies.starts.tolist(), bodies.stops.tolist(), strict=True)
        if bodies.nulls is None:
            return [decode(self._tagged.data, *each) for each in bounds]
        return [
            None if null else decode(self._tagged.data, *each)
            for each, null in zip(bounds, bodies.nulls.tolist(), strict=True)
        ]

    def _records(self, typ: t.Record, bodies: Bodies, paths: Paths | None) -> pa.Array:
        present = bodies.present()
        columns = []
        for f, field in zip(typ.fields, self._tagged.fields_of(typ, present), strict=True):
            within = None if paths is None else inside(paths, f.name)
            if within is None or within:
                columns.append(_spread(self.column(f.type, field, within), bodies.nulls))
            elif self._is_checked:
                self._check(f.type, field)
        return records_of(project_shape(typ, paths), columns, len(bodies.starts), _mask(bodies.nulls))

    def _unions(self, typ: t.Union, bodies: Bodies) -> pa.Array:
        present = bodies.present()
        tags = self._tagged.tagged(present.starts)
        inner = self._tagged.tagged(tags.stops)
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
            column, places = self.column(member, inner.picked(own)), np.full(len(nulls), -1)
            places[rows[own]] = np.arange(len(own))
            columns.append(column.take(pa.array(places, mask=places < 0)))
        mask = pa.array(nulls) if nulls.any() else None
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type(typ)), mask=mask)

    def _primitives(self, typ: t.Primitive, bodies: Bodies) -> pa.Array:
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
            return _array(self._tagged.bytes[bodies.starts] != 0, nulls)
        if typ is t.NULL:
            _require(bodies, 0)
            return pa.nulls(len(bodies.starts), arrow_type(t.NULL))
        if typ is t.IP:
            return self._addresses(bodies)
        if typ is t.STRING:
            return self._slices(bodies).cast(pa.string())
        if typ is t.BYTES:
            return self._slices(bodies)
        if typ in _CANONICAL:
            return _translated(self._slices(bodies), _CANONICAL[typ])
        return to_arrow(typ, self.decoded(decoder(typ), bodies))

    def _unsigned(self, bodies: Bodies, top: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
        sizes = bodies.sizes
        if len(sizes) and sizes.max() > 8:
            raise Irregular
        numbers: np.ndarray[Any, np.dtype[np.uint64]] = self._tagged.words[bodies.starts] & _MASKS[sizes]
        if len(numbers) and int(numbers.max()) > top:
            raise Irregular
        return numbers

    def _signed(self, typ: t.Primitive, bodies: Bodies) -> np.ndarray[Any, Any]:
        codes = self._unsigned(bodies, (1 << 64) - 1)
        numbers = (codes >> np.uint64(1)).view(np.int64)
        is_negative = (codes & np.uint64(1)).astype(bool)
        if is_negative.any():
            numbers = np.where(is_negative, np.where(codes == 1, _MIN_INT64, -numbers), numbers)
        low, high = t.INT_RANGES[typ]
        if high < 1 << 62 and len(numbers) and not (low <= numbers.min() and numbers.max() <= high):
            raise Irregular
        return numbers.astype(arrow_type(typ).to_pandas_dtype(), copy=False)

    def _floats(self, typ: t.Primitive, bodies: Bodies) -> np.ndarray[Any, Any]:
        kind = _FLOATS[typ]
        _require(bodies, kind.itemsize)
        bits = self._tagged.words[bodies.starts].astype(f"<u{kind.itemsize}")
        return bits.view(kind).astype(arrow_type(typ).to_pandas_dtype(), copy=False)

    def _slices(self, bodies: Bodies, before: int = 0) -> pa.Array:
        """Bodies as they are, with some bytes before each."""
        count = len(bodies.starts)
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2] = bodies.starts - before if before else bodies.starts
        offsets[1::2] = bodies.stops
        if (offsets[1:] < offsets[:-1]).any():
            raise Irregular
        # Every other item is a body; what is between two of them in the frames is an item, too.
        items = pa.Array.from_buffers(
            _BINARY, max(2 * count - 1, 0), [None, pa.py_buffer(offsets), self._tagged.buffer]
        )
        return items.take(_array(np.arange(0, 2 * count, 2, dtype=np.int32), bodies.nulls))

    def _addresses(self, bodies: Bodies) -> pa.Array:
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

    def _check(self, typ: t.Type, bodies: Bodies) -> None:
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
            for f, field in zip(under.fields, self._tagged.fields_of(under, present), strict=True):
                self._check(f.type, field)
        elif isinstance(under, t.Array):
            self._check(under.elem, self._tagged.elements(bodies)[1])
        elif under is not t.BYTES:
            self.column(under, bodies)


def _require(bodies: Bodies, size: int) -> None:
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
