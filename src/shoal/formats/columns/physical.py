"""How each Zed type lies in an Arrow column, and so in Parquet: one fixed physical type for each.

    plain types, records, arrays   themselves (float16 as float32)
    time, duration                 int64 of nanoseconds
    date, decimal                  themselves
    ip                             binary: 4 or 6, then the address, so that bytes order as addresses do
    net, type                      binary, as in ZNG
    set                            list, in canonical order
    map                            list of {key, value}, in canonical order
    union                          {tag, 0, 1, ...}: one column a member
    enum                           int32, the position
    error, named types             what they wrap
    null                           bool, which is always null: lists of nulls of no type do not survive other engines
    {}                             bool: true where it is not null

Arrow data means something only beside its shape, the exact Zed type. Fields of records go by their places: where
names are empty or differ in case only, they have others here (`physical_names`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.formats.columns.kernels import Mask, lists, structs, valid_rows
from shoal.formats.columns.layouts import physical_names
from shoal.model import types as t
from shoal.model.zcode import Data, decode_type, encode_type

_PRIMITIVES: dict[t.Type, pa.DataType] = {
    t.UINT8: pa.uint8(), t.UINT16: pa.uint16(), t.UINT32: pa.uint32(), t.UINT64: pa.uint64(),
    t.INT8: pa.int8(), t.INT16: pa.int16(), t.INT32: pa.int32(), t.INT64: pa.int64(),
    t.DURATION: pa.int64(), t.TIME: pa.int64(), t.DATE: pa.date32(),
    t.FLOAT16: pa.float32(), t.FLOAT32: pa.float32(), t.FLOAT64: pa.float64(),
    t.BOOL: pa.bool_(), t.STRING: pa.string(), t.NULL: pa.bool_(),
    t.BYTES: pa.binary(), t.IP: pa.binary(), t.NET: pa.binary(), t.TYPE: pa.binary(),
}  # fmt: skip


_ARROW_TYPE: t.MemoKey[pa.DataType] = t.MemoKey("Arrow type")


def arrow_type(typ: t.Type) -> pa.DataType:
    """The physical type of a shape."""
    cached = typ.memo.get(_ARROW_TYPE)
    if cached is None:
        cached = typ.memo[_ARROW_TYPE] = _arrow_type(typ.under)
    return cached


def _arrow_type(typ: t.Type) -> pa.DataType:
    match typ:
        case t.Decimal():
            return pa.decimal128(typ.precision, typ.scale)
        case t.Primitive():
            return _PRIMITIVES[typ]
        case t.Record():
            if not typ.fields:
                return pa.bool_()
            names = physical_names(typ)
            return pa.struct([(name, arrow_type(f.type)) for name, f in zip(names, typ.fields, strict=True)])
        case t.Array() | t.Set():
            return pa.list_(arrow_type(typ.elem))
        case t.Map():
            return pa.list_(pa.struct([("key", arrow_type(typ.key)), ("value", arrow_type(typ.value))]))
        case t.Union():
            members = [(str(i), arrow_type(m)) for i, m in enumerate(typ.types)]
            return pa.struct([("tag", pa.int16()), *members])
        case t.Enum():
            return pa.int32()
        case t.Error():
            return arrow_type(typ.inner)
        case _:
            raise AssertionError(typ)


# ---- data to columns


_FEW = 64
"""For fewer rows than this, to make an array takes longer than what is put into it."""
Plan = Callable[[], pa.Array]
"""Makes a column, once the data of all leaves are known."""
Leaf = Callable[[t.Type, Sequence[Data]], Plan]
"""Takes data in the physical form of a type that has no parts."""


def to_arrow(typ: t.Type, data: Sequence[Data]) -> pa.Array:
    """A column of these data, which are all of this type."""
    if len(data) >= _FEW or not isinstance(typ.under, t.Record):
        return _plan(typ, data, _alone)()
    leaves = _Leaves()
    plan = _plan(typ, data, leaves.add)
    leaves.close()
    return plan()


def _alone(typ: t.Type, data: Sequence[Data]) -> Plan:
    return partial(pa.array, data, arrow_type(typ))


class _Leaves:
    """The leaves of a few wide records: those of one type are made as one array, of which each has a part."""

    def __init__(self) -> None:
        self._data: dict[t.Type, list[Data]] = {}
        self._arrays: dict[t.Type, pa.Array] = {}

    def add(self, typ: t.Type, data: Sequence[Data]) -> Plan:
        same = self._data.setdefault(typ, [])
        start = len(same)
        same += data
        return lambda: self._arrays[typ].slice(start, len(data))

    def close(self) -> None:
        """All leaves are here."""
        self._arrays = {typ: pa.array(data, arrow_type(typ)) for typ, data in self._data.items()}


def _plan(typ: t.Type, data: Sequence[Data], leaf: Leaf) -> Plan:
    typ = typ.under
    match typ:
        case t.Primitive():
            return leaf(typ, _PACK[typ](data) if typ in _PACK else data)
        case t.Record():
            return _plan_records(typ, data, leaf)
        case t.Array() | t.Set():
            return _plan_lists(typ, data, _plan(typ.elem, [x for d in data if d is not None for x in d], leaf))
        case t.Map():
            keys = _plan(typ.key, [k for d in data if d is not None for k, _ in d], leaf)
            values = _plan(typ.value, [v for d in data if d is not None for _, v in d], leaf)
            return _plan_lists(typ, data, lambda: pa.StructArray.from_arrays([keys(), values()], ["key", "value"]))
        case t.Union():
            return _plan_unions(typ, data, leaf)
        case t.Enum():
            return leaf(t.INT32, data)
        case t.Error():
            return _plan(typ.inner, data, leaf)
        case _:
            raise AssertionError(typ)


_PACK: dict[t.Type, Callable[[Sequence[Data]], list[Any]]] = {
    t.IP: lambda data: [None if d is None else (b"\4" if len(d) == 4 else b"\6") + d for d in data],
    t.TYPE: lambda data: [None if d is None else encode_type(d) for d in data],
}


def _nulls(data: Sequence[Data]) -> Mask | None:
    nulls = [d is None for d in data]
    return np.array(nulls, bool) if any(nulls) else None


def _plan_records(typ: t.Record, data: Sequence[Data], leaf: Leaf) -> Plan:
    if not typ.fields:
        return leaf(t.BOOL, [None if d is None else True for d in data])
    absent = (None,) * len(typ.fields)
    columns = list(zip(*(absent if d is None else d for d in data), strict=True)) or [()] * len(typ.fields)
    plans = [_plan(f.type, c, leaf) for f, c in zip(typ.fields, columns, strict=True)]
    return lambda: structs(arrow_type(typ), [plan() for plan in plans], _nulls(data), len(data))


def _plan_unions(typ: t.Union, data: Sequence[Data], leaf: Leaf) -> Plan:
    plans = [leaf(t.INT16, [None if d is None else d[0] for d in data])]
    for i, member in enumerate(typ.types):
        plans.append(_plan(member, [d[1] if d is not None and d[0] == i else None for d in data], leaf))
    return lambda: structs(arrow_type(typ), [plan() for plan in plans], _nulls(data), len(data))


def _plan_lists(typ: t.Type, data: Sequence[Data], values: Plan) -> Plan:
    sizes = np.fromiter((0 if d is None else len(d) for d in data), np.int32, len(data))
    return lambda: lists(arrow_type(typ), _offsets(sizes), values(), _nulls(data))


def list_array(typ: pa.DataType, sizes: np.ndarray[Any, Any], values: pa.Array, mask: pa.Array | None) -> pa.Array:
    """A list column of these lengths over the values laid end to end."""
    return lists(typ, _offsets(sizes), values, None if mask is None else mask.to_numpy(zero_copy_only=False))


def _offsets(sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


# ---- columns to data


def from_arrow(typ: t.Type, column: pa.Array) -> list[Data]:
    """The data in a column, given its shape."""
    if isinstance(column, pa.ChunkedArray):
        return [d for chunk in column.chunks for d in from_arrow(typ, chunk)]
    typ = typ.under
    match typ:
        case t.Primitive():
            data = (column.view(pa.int32()) if typ is t.DATE else column).to_pylist()
            return _UNPACK[typ](data) if typ in _UNPACK else data
        case t.Record():
            return _records_from_arrow(typ, column)
        case t.Array() | t.Set():
            return _slices(column, from_arrow(typ.elem, column.values))
        case t.Map():
            entries = column.values
            keys, values = from_arrow(typ.key, entries.field(0)), from_arrow(typ.value, entries.field(1))
            return _slices(column, list(zip(keys, values, strict=True)))
        case t.Union():
            return _unions_from_arrow(typ, column)
        case t.Enum():
            return column.to_pylist()  # type: ignore[no-any-return]
        case t.Error():
            return from_arrow(typ.inner, column)
        case _:
            raise AssertionError(typ)


_UNPACK: dict[t.Type, Callable[[list[Any]], list[Data]]] = {
    t.IP: lambda data: [None if d is None else d[1:] for d in data],
    t.TYPE: lambda data: [None if d is None else decode_type(d) for d in data],
}


def _present(column: pa.Array) -> list[bool] | None:
    return valid_rows(column).tolist() if column.null_count else None


def _records_from_arrow(typ: t.Record, column: pa.Array) -> list[Data]:
    if not typ.fields:
        return [None if d is None else () for d in column.to_pylist()]
    fields = [from_arrow(f.type, c) for f, c in zip(typ.fields, column.flatten(), strict=True)]
    rows: list[Data] = list(zip(*fields, strict=True))
    present = _present(column)
    return rows if present is None else [r if p else None for r, p in zip(rows, present, strict=True)]


def _unions_from_arrow(typ: t.Union, column: pa.Array) -> list[Data]:
    tags, *members = column.flatten()
    data = [from_arrow(m, c) for m, c in zip(typ.types, members, strict=True)]
    return [None if tag is None else (tag, data[tag][i]) for i, tag in enumerate(tags.to_pylist())]


def _slices(column: pa.Array, values: list[Data]) -> list[Data]:
    offsets = column.offsets.to_pylist()
    present = _present(column) or repeat(True, len(column))
    pairs = zip(offsets, offsets[1:], present, strict=False)
    return [tuple(values[a:b]) if p else None for a, b, p in pairs]
