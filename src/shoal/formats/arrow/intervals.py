"""Intervals of months and of days and milliseconds. pyarrow can carry these two Arrow types but not name or open them.

So their types come out of a schema message, and their arrays are opened and made as integers of the
same layout, by a view of the record around them.
"""

from __future__ import annotations

import pyarrow as pa

_SCHEMA = bytes.fromhex(
    "ffffffffa00000001000000000000a000c000600050008000a000000000104000c0000000800080000000400080000000400"
    "0000020000004400000004000000d4ffffff0000010b1000000018000000040000000000000001000000640006000800060006"
    "00000000000100100014000800060007000c0000001000100000000000010b10000000180000000400000000000000010000006d"
    "000000040004000400000000000000"
)
"""A message of the Arrow stream format: a schema with one field of each type."""

MONTHS, DAY_TIME = (field.type for field in pa.ipc.read_schema(pa.py_buffer(_SCHEMA)))
_STORED = {MONTHS.id: pa.int32(), DAY_TIME.id: pa.int64()}


def has_intervals(typ: pa.DataType) -> bool:
    """Whether one of the two interval types is part of this type."""
    return typ.id in _STORED or any(has_intervals(child.type) for child in _children(typ))


def stored(typ: pa.DataType) -> pa.DataType:
    """The type with integers instead of these intervals."""
    if typ.id in _STORED:
        return _STORED[typ.id]
    if not has_intervals(typ):
        return typ
    fields = [field.with_type(stored(field.type)) for field in _children(typ)]
    if pa.types.is_struct(typ):
        return pa.struct(fields)
    if pa.types.is_map(typ):
        return pa.map_(*fields, keys_sorted=typ.keys_sorted)
    if pa.types.is_union(typ):
        return pa.union(fields, mode=typ.mode, type_codes=typ.type_codes)
    if pa.types.is_fixed_size_list(typ):
        return pa.list_(fields[0], typ.list_size)
    for is_kind, make in _LISTS:
        if is_kind(typ):
            return make(fields[0])
    raise pa.ArrowNotImplementedError(f"unimplemented Arrow type: {typ}")


_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)


def _children(typ: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(typ):
        return [typ.key_field, typ.item_field]
    return [typ.field(i) for i in range(typ.num_fields)]
