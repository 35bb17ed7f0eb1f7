"""Zed records as Arrow batches. What Arrow has no type for, such as an ip or an error, is written as its text.

The names that reading gives (`arrow_date32=time`) choose the Arrow type here, so what came from
Arrow goes back as it was. A value that is finer than the unit of its type loses the excess.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import InvalidInput
from shoal.formats.arrow.intervals import DAY_TIME, MONTHS, has_intervals, stored
from shoal.formats.arrow.reader import refusing
from shoal.formats.arrow.scalars import DAY, SCALES
from shoal.formats.streams import Sink, WriteOptions
from shoal.model import types as t
from shoal.model.text import brief, format_primitive, format_type, format_value
from shoal.model.values import Value
from shoal.model.zcode import Data

_MOST_ROWS = 10_000
_FIRST_ROWS = 1_000
_BATCH_BYTES = 16 * 1024 * 1024
_MOST_MEMBERS = 128
"""Arrow numbers the members of a union with seven bits."""
_MOST_PADDING = 1 << 24
"""How many elements may be made up for nulls among lists of a fixed size."""


class RecordWriter:
    """Collects records of one type and writes them in batches. A format says how it opens its stream."""

    prefix: str

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        self._out = out
        self._shape = options.shape
        self._type: t.Record | None = None
        self._schema: pa.Schema | None = None
        self._stream: Any = None
        self._rows: list[Data] = []
        self._enough = _FIRST_ROWS

    def open_stream(self, sink: pa.NativeFile, schema: pa.Schema) -> Any:
        """Something with `write_batch` and `close`."""
        raise NotImplementedError

    def check(self, typ: t.Type) -> None:
        """Raise ArrowInvalid if the format cannot hold this part of the record."""

    def write(self, value: Value) -> None:
        """Add a record; all have to be of one type."""
        if value.type.under is not self._type:
            self._enter(value)
        self._rows.append(value.data)
        if len(self._rows) >= self._enough:
            self._flush()

    def close(self) -> None:
        """Write what is buffered and the end of the stream. Without records of a known type there is no stream."""
        if self._type is None and self._shape is not None:
            self._enter(Value(self._shape, None))
            self.start(self._schema)
        if self._rows:
            self._flush()
        if self._stream is not None:
            with refusing(self.prefix):
                self._stream.close()
            self._stream = None

    def is_empty(self) -> bool:
        """Whether no record was written."""
        return self._type is None

    def start(self, schema: pa.Schema) -> None:
        """Open the stream."""
        self._stream = self.open_stream(pa.PythonFile(_Pipe(self._out), mode="w"), schema)

    def _enter(self, value: Value) -> None:
        typ = value.type.under
        if not isinstance(typ, t.Record):
            raise InvalidInput(f"{self.prefix}: not a record: {brief(value)}")
        if self._type is not None:
            both = f"{format_type(self._type)} and {format_type(typ)}"
            raise InvalidInput(f"{self.prefix}: encountered multiple types (consider 'fuse'): {both}")
        with refusing(self.prefix):
            self._check_parts(typ)
            self._schema = pa.schema(list(exchange_type(typ)))
        self._type = typ

    def _check_parts(self, typ: t.Type) -> None:
        self.check(typ)
        if not isinstance(typ.under, t.Error):
            for child in typ.under.children():
                self._check_parts(child)

    def _flush(self) -> None:
        assert self._type is not None
        rows, self._rows = self._rows, []
        absent = (None,) * len(self._type.fields)
        with refusing(self.prefix):
            # A null record has no place in a stream of records: its fields are null instead.
            batch = _batch(self._type, [absent if row is None else row for row in rows])
            if self._stream is None:
                self.start(self._schema)
            self._stream.write_batch(batch)
        self._enough = max(1, min(_MOST_ROWS, _BATCH_BYTES * len(rows) // max(1, batch.get_total_buffer_size())))


class _Pipe:
    """A sink as a file for pyarrow, which would close what it is given."""

    closed = False

    def __init__(self, out: Sink) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        self._out.write(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def _batch(typ: t.Record, rows: list[Data]) -> pa.RecordBatch:
    array, whole = _column(typ, rows), exchange_type(typ)
    if has_intervals(whole):
        array = array.view(whole)
    batch = pa.RecordBatch.from_struct_array(array)
    batch.validate(full=True)
    return batch


# ---- types


_EXCHANGE_TYPE: t.MemoKey[pa.DataType] = t.MemoKey("exchange type")


def exchange_type(typ: t.Type) -> pa.DataType:
    """The Arrow type that stands for a Zed type in files for others."""
    cached = typ.memo.get(_EXCHANGE_TYPE)
    if cached is None:
        name = typ.name if isinstance(typ, t.Named) else ""
        cached = typ.memo[_EXCHANGE_TYPE] = _exchange_type(typ.under, name)
    return cached


def _exchange_type(typ: t.Type, name: str) -> pa.DataType:
    match typ:
        case t.Primitive():
            return _primitive_type(typ, name)
        case t.Record():
            if not typ.fields:
                raise pa.ArrowInvalid("unsupported type: empty record")
            if (name, typ) in _NAMED_RECORDS:
                return _NAMED_RECORDS[name, typ]
            if typ is _DECIMAL_PARTS and (decimal := decimal_type(name, 128)) is not None:
                return decimal
            return pa.struct([(f.name, exchange_type(f.type)) for f in typ.fields])
        case t.Array() | t.Set():
            return _list_type(typ, name)
        case t.Map() if exchange_type(typ.key) == pa.null():
            raise pa.ArrowInvalid(f"unsupported type: {format_type(typ)}")
        case t.Map():
            return pa.map_(exchange_type(typ.key), exchange_type(typ.value))
        case t.Union():
            members = _union_members(typ)
            return pa.dense_union([pa.field(str(i), member) for i, member in enumerate(members)])
        case _:
            return pa.string()


_PRIMITIVES: dict[t.Type, pa.DataType] = {
    t.UINT8: pa.uint8(), t.UINT16: pa.uint16(), t.UINT32: pa.uint32(), t.UINT64: pa.uint64(),
    t.INT8: pa.int8(), t.INT16: pa.int16(), t.INT32: pa.int32(), t.INT64: pa.int64(),
    t.FLOAT16: pa.float16(), t.FLOAT32: pa.float32(), t.FLOAT64: pa.float64(),
    t.DURATION: pa.duration("ns"), t.TIME: pa.timestamp("ns", "UTC"), t.DATE: pa.date32(),
    t.BOOL: pa.bool_(), t.BYTES: pa.binary(), t.STRING: pa.string(), t.NULL: pa.null(),
    t.IP: pa.string(), t.NET: pa.string(), t.TYPE: pa.string(),
}  # fmt: skip

_DAY_TIME_PARTS = t.record((("days", t.INT32), ("milliseconds", t.UINT32)))
_MONTH_DAY_NANO_PARTS = t.record((("month", t.INT32), ("day", t.INT32), ("nanoseconds", t.INT64)))
_DECIMAL_PARTS = t.record((("high", t.INT64), ("low", t.UINT64)))
_NAMED_RECORDS: dict[tuple[str, t.Type], pa.DataType] = {
    ("arrow_day_time_interval", _DAY_TIME_PARTS): DAY_TIME,
    ("arrow_month_day_nano_interval", _MONTH_DAY_NANO_PARTS): pa.month_day_nano_interval(),
}

_UNITS: dict[tuple[str, t.Type], tuple[pa.DataType, int]] = {
    ("arrow_date32", t.TIME): (pa.date32(), DAY),
    ("arrow_date64", t.TIME): (pa.date64(), DAY),
    **{(f"arrow_timestamp_{u}", t.TIME): (pa.timestamp(u, "UTC"), SCALES[u]) for u in ("s", "ms", "us")},
    **{(f"arrow_time32_{u}", t.TIME): (pa.time32(u), SCALES[u]) for u in ("s", "ms")},
    **{(f"arrow_time64_{u}", t.TIME): (pa.time64(u), SCALES[u]) for u in ("us", "ns")},
    **{(f"arrow_duration_{u}", t.DURATION): (pa.duration(u), SCALES[u]) for u in ("s", "ms", "us")},
}
"""The names of times and durations in other units: the Arrow type, and the nanoseconds of one unit."""

_OTHERS: dict[tuple[str, t.Type], pa.DataType] = {
    ("arrow_large_string", t.STRING): pa.large_string(),
    ("arrow_large_binary", t.BYTES): pa.large_binary(),
    ("arrow_month_interval", t.INT32): MONTHS,
}


def _primitive_type(typ: t.Primitive, name: str) -> pa.DataType:
    if isinstance(typ, t.Decimal):
        return pa.decimal128(typ.precision, typ.scale)
    if (name, typ) in _UNITS:
        return _UNITS[name, typ][0]
    if (name, typ) in _OTHERS:
        return _OTHERS[name, typ]
    width = _size(name, "arrow_fixed_size_binary_")
    return pa.binary(width) if typ is t.BYTES and width is not None else _PRIMITIVES[typ]


def decimal_type(name: str, bits: int) -> pa.DataType | None:
    """The decimal type that a name stands for, see `decimal_name`; None if it is not such a name."""
    match = re.fullmatch(rf"arrow_decimal{bits}(?:_([0-9]{{1,2}})_(-?[0-9]{{1,2}}))?", name)
    if match is None:
        return None
    make, most = (pa.decimal128, 38) if bits == 128 else (pa.decimal256, 76)
    precision, scale = (int(match[1]), int(match[2])) if match[1] else (most, 0)
    return make(precision, scale) if 1 <= precision <= most else None


def _size(name: str, prefix: str) -> int | None:
    match = re.fullmatch(prefix + "([0-9]{1,9})", name)
    return int(match[1]) if match else None


def _list_type(typ: t.Array | t.Set, name: str) -> pa.DataType:
    elem = exchange_type(typ.elem)
    size = _size(name, "arrow_fixed_size_list_")
    if size is not None:
        return pa.list_(elem, size)
    if typ.elem is t.UINT64 and (decimal := decimal_type(name, 256)) is not None:
        return decimal
    return pa.large_list(elem) if name == "arrow_large_list" else pa.list_(elem)


def _union_members(typ: t.Union) -> list[pa.DataType]:
    """The members' types, each once: an ip and a string are both strings in Arrow."""
    if len(typ.types) > _MOST_MEMBERS:
        raise pa.ArrowInvalid(f"unsupported type: union with more than {_MOST_MEMBERS} fields")
    return list(dict.fromkeys(exchange_type(member) for member in typ.types))


# ---- data


def _column(typ: t.Type, data: Sequence[Data]) -> pa.Array:
    """A column of these data, with integers instead of intervals."""
    whole = exchange_type(typ)
    name = typ.name if isinstance(typ, t.Named) else ""
    under = typ.under
    match under:
        case t.Primitive():
            return _primitives(under, name, whole, data)
        case _ if whole in _LAYOUTS:
            return _LAYOUTS[whole](data)
        case _ if pa.types.is_decimal128(whole):
            return _packed("<Qq", whole, (1, 0))(data)
        case _ if pa.types.is_decimal256(whole):
            return _packed("<4Q", whole, (0, 1, 2, 3))(data)
        case t.Record():
            return _records(under, whole, data)
        case t.Array() | t.Set():
            return _lists(under, whole, data)
        case t.Map():
            return _maps(under, whole, data)
        case t.Union():
            return _unions(under, data)
        case t.Enum():
            return pa.array([None if d is None else under.symbols[d] for d in data], pa.string())
        case t.Error():
            return pa.array([None if d is None else format_value(Value(under, d)) for d in data], pa.string())
        case _:
            raise AssertionError(typ)


_TEXTS: dict[t.Type, Callable[[Data], str]] = {
    t.IP: lambda data: format_primitive(t.IP, data),
    t.NET: lambda data: format_primitive(t.NET, data),
    t.TYPE: format_type,
}


def _primitives(typ: t.Primitive, name: str, whole: pa.DataType, data: Sequence[Data]) -> pa.Array:
    if typ in _TEXTS:
        return pa.array([None if d is None else _TEXTS[typ](d) for d in data], whole)
    if (name, typ) in _UNITS:
        return _in_units(whole, _UNITS[name, typ][1], data)
    if typ is t.TIME or typ is t.DURATION:
        return pa.array(data, pa.int64()).view(whole)
    return pa.array(data, stored(whole))


def _in_units(whole: pa.DataType, scale: int, data: Sequence[Data]) -> pa.Array:
    if pa.types.is_date(whole):
        # A date is the day that a time is in, also before 1970; date64 has it in milliseconds.
        unit = DAY // SCALES["ms"] if pa.types.is_date64(whole) else 1
        units = pa.array([None if d is None else d // DAY * unit for d in data], pa.int64())
    else:
        units = pc.divide(pa.array(data, pa.int64()), pa.scalar(scale, pa.int64()))
    return units.cast(pa.int32() if whole.bit_width == 32 else pa.int64()).view(whole)


def _absent(data: Sequence[Data]) -> pa.Array | None:
    mask = [d is None for d in data]
    return pa.array(mask, pa.bool_()) if any(mask) else None


def _records(typ: t.Record, whole: pa.DataType, data: Sequence[Data]) -> pa.Array:
    absent = (None,) * len(typ.fields)
    columns = list(zip(*(absent if d is None else d for d in data), strict=True)) or [()] * len(typ.fields)
    arrays = [_column(f.type, c) for f, c in zip(typ.fields, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(stored(whole)), mask=_absent(data))


def _offsets(data: Sequence[Data], dtype: Any = np.int32) -> pa.Array:
    sizes = np.fromiter((0 if d is None else len(d) for d in data), np.int64, len(data))
    ends = np.concatenate(([0], np.cumsum(sizes)))
    if ends[-1] > np.iinfo(dtype).max:
        raise pa.ArrowInvalid("too many elements for one batch")
    return pa.array(ends.astype(dtype))


def _lists(typ: t.Array | t.Set, whole: pa.DataType, data: Sequence[Data]) -> pa.Array:
    if pa.types.is_fixed_size_list(whole):
        return _fixed_size_lists(typ, whole, data)
    values = _column(typ.elem, [x for d in data if d is not None for x in d])
    if pa.types.is_large_list(whole):
        return pa.LargeListArray.from_arrays(_offsets(data, np.int64), values, type=stored(whole), mask=_absent(data))
    return pa.ListArray.from_arrays(_offsets(data), values, type=stored(whole), mask=_absent(data))


def _fixed_size_lists(typ: t.Array | t.Set, whole: Any, data: Sequence[Data]) -> pa.Array:
    size = whole.list_size
    if any(d is not None and len(d) != size for d in data):
        raise pa.ArrowInvalid(f"a value of type arrow_fixed_size_list_{size} has another number of elements")
    if size * sum(d is None for d in data) > _MOST_PADDING:
        raise pa.ArrowInvalid(f"too many nulls of type arrow_fixed_size_list_{size}")
    padding = (None,) * size
    values = _column(typ.elem, [x for d in data for x in (padding if d is None else d)])
    present = pa.array([d is not None for d in data], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(stored(whole), len(data), [present], children=[values])


def _maps(typ: t.Map, whole: pa.DataType, data: Sequence[Data]) -> pa.Array:
    keys = [k for d in data if d is not None for k, _ in d]
    values = [v for d in data if d is not None for _, v in d]
    if any(k is None for k in keys):
        raise pa.ArrowInvalid(f"null key in a map of type {format_type(typ)}")
    return pa.MapArray.from_arrays(
        _offsets(data), _column(typ.key, keys), _column(typ.value, values), type=stored(whole), mask=_absent(data)
    )


def _unions(typ: t.Union, data: Sequence[Data]) -> pa.Array:
    kinds = _union_members(typ)
    codes = np.array([kinds.index(exchange_type(member)) for member in typ.types], np.int8)
    # The null of a union is a null of its first member: a union in Arrow has no nulls of its own.
    tags = np.fromiter((0 if d is None else d[0] for d in data), np.int64, len(data))
    places = np.zeros(len(data), np.int32)
    children = []
    for code in range(len(kinds)):
        sharing = [tag for tag in range(len(codes)) if codes[tag] == code]
        rows = [np.flatnonzero(tags == tag) for tag in sharing]
        arrays = [_member(typ.types[tag], data, r) for tag, r in zip(sharing, rows, strict=True)]
        order = np.argsort(np.concatenate(rows))
        places[np.concatenate(rows)[order]] = np.arange(len(order))
        children.append(arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays).take(pa.array(order)))
    names = [str(i) for i in range(len(kinds))]
    return pa.UnionArray.from_dense(pa.array(codes[tags], pa.int8()), pa.array(places), children, names)


def _member(typ: t.Type, data: Sequence[Data], rows: np.ndarray[Any, Any]) -> pa.Array:
    return _column(typ, [None if (d := data[i]) is None else d[1] for i in rows.tolist()])


# ---- numbers in parts


def _packed(layout: str, whole: pa.DataType, order: Sequence[int]) -> Callable[[Sequence[Data]], pa.Array]:
    """Parts of a number as the bytes that Arrow keeps it in."""
    shape = struct.Struct(layout)

    def pack(parts: Data) -> bytes | None:
        if parts is None:
            return None
        try:
            return shape.pack(*(parts[i] for i in order))
        except (struct.error, IndexError):
            raise pa.ArrowInvalid(f"no {whole} has the parts {list(parts)}") from None

    return lambda data: pa.array([pack(d) for d in data], pa.binary(shape.size)).view(stored(whole))


_LAYOUTS: dict[pa.DataType, Callable[[Sequence[Data]], pa.Array]] = {
    DAY_TIME: _packed("<ii", DAY_TIME, (0, 1)),
    pa.month_day_nano_interval(): _packed("<iiq", pa.month_day_nano_interval(), (0, 1, 2)),
}
