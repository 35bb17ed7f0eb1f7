"""Turning values into VNG columns. A column with one distinct value has no data, with few has a dictionary."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, groupby

from shoal.formats.vng.metadata import count, make
from shoal.formats.vng.segments import SegmentWriter
from shoal.model import types as t
from shoal.model import values as v
from shoal.model.order import sort_key
from shoal.model.values import Value
from shoal.model.zcode import Data, encode

_MAX_DICTIONARY = 256
_MAX_METADATA_VALUE = 1 << 20
"""Longer values are kept out of metadata, which a reader takes in one piece."""
_NO_DICTIONARY = frozenset((t.UINT8, t.INT8, t.BOOL))
"""A position in a dictionary would take as much as the value itself."""


def encode_columns(columns: list[tuple[t.Type, list[Data]]], tags: list[int], segments: SegmentWriter) -> Value:
    """Store one object: the values of each type, and which type each value is of. Returns its metadata."""
    if len(columns) == 1:
        return _column(*columns[0], segments)
    where = segments.add_ints(tags)
    metas = [_column(typ, items, segments) for typ, items in columns]
    return make("Variant", {"Tags": where, "Values": v.array(metas), "Length": count(len(tags))})


def _column(typ: t.Type, items: list[Data], segments: SegmentWriter) -> Value:
    """Store a column. Names and errors stand outside of nulls, everything else inside."""
    if isinstance(typ, t.Named):
        return make("Named", {"Name": v.string(typ.name), "Values": _column(typ.inner, items, segments)})
    if isinstance(typ, t.Error):
        return make("Error", {"Values": _column(typ.inner, items, segments)})
    present = [d for d in items if d is not None]
    values = _present(typ, present, segments)
    if len(present) == len(items):
        return values
    runs = segments.add_ints(_runs(items))
    return make("Nulls", {"Runs": runs, "Values": values, "Count": count(len(items) - len(present))})


def _runs(items: list[Data]) -> list[int]:
    """Lengths of the runs of values and of nulls in turn, beginning with values."""
    runs = [sum(1 for _ in run) for _, run in groupby(items, lambda d: d is None)]
    return [0, *runs] if items[0] is None else runs


def _present(typ: t.Type, items: list[Data], segments: SegmentWriter) -> Value:
    """Store a column without nulls."""
    match typ:
        case t.Record():
            return _record(typ, items, segments)
        case t.Array() | t.Set():
            kind = "Array" if isinstance(typ, t.Array) else "Set"
            head = {"Length": count(len(items)), "Lengths": segments.add_ints(list(map(len, items)))}
            return make(kind, {**head, "Values": _column(typ.elem, list(chain.from_iterable(items)), segments)})
        case t.Map():
            return _map(typ, items, segments)
        case t.Union():
            return _union(typ, items, segments)
        case _:
            return _primitive(typ, items, segments)


def _record(typ: t.Record, items: list[Data], segments: SegmentWriter) -> Value:
    columns = list(map(list, zip(*items, strict=True))) if items else [[] for _ in typ.fields]
    fields = [
        make("Field", {"Name": v.string(f.name), "Values": _column(f.type, column, segments)})
        for f, column in zip(typ.fields, columns, strict=True)
    ]
    return make("Record", {"Length": count(len(items)), "Fields": v.array(fields)})


def _map(typ: t.Map, items: list[Data], segments: SegmentWriter) -> Value:
    entries = list(chain.from_iterable(items))
    return make(
        "Map",
        {
            "Length": count(len(items)),
            "Lengths": segments.add_ints(list(map(len, items))),
            "Keys": _column(typ.key, [k for k, _ in entries], segments),
            "Values": _column(typ.value, [d for _, d in entries], segments),
        },
    )


def _union(typ: t.Union, items: list[Data], segments: SegmentWriter) -> Value:
    columns: list[list[Data]] = [[] for _ in typ.types]
    for tag, data in items:
        columns[tag].append(data)
    where = segments.add_ints([tag for tag, _ in items])
    metas = [_column(member, column, segments) for member, column in zip(typ.types, columns, strict=True)]
    return make("Union", {"Length": count(len(items)), "Tags": where, "Values": v.array(metas)})


# ---- primitives


def _primitive(typ: t.Type, items: list[Data], segments: SegmentWriter) -> Value:
    if typ is t.NULL:
        return make("Const", {"Value": v.NULL, "Count": count(0)})
    bodies = [encode(typ, d) or b"" for d in items]
    counts = Counter(bodies)
    short = len(counts) <= _MAX_DICTIONARY and sum(map(len, counts)) <= _MAX_METADATA_VALUE
    if short and len(counts) == 1:
        return make("Const", {"Value": Value(typ, items[0]), "Count": count(len(items))})
    if short and counts and typ not in _NO_DICTIONARY:
        return _dictionary(typ, items, bodies, counts, segments)
    low, high = _bounds(typ, items)
    return _primitive_meta(typ, segments.add_bodies(bodies), None, low, high, len(items))


def _dictionary(
    typ: t.Type, items: list[Data], bodies: list[bytes], counts: Counter[bytes], segments: SegmentWriter
) -> Value:
    by_value = sort_key()
    entries = [(Value(typ, data), body) for body, data in dict(zip(bodies, items, strict=True)).items()]
    entries.sort(key=lambda entry: by_value(entry[0]))
    position = {body: i for i, (_, body) in enumerate(entries)}
    where = segments.add(bytes(map(position.__getitem__, bodies)))
    table = tuple((value.data, counts[body]) for value, body in entries)
    return _primitive_meta(typ, where, table, entries[0][0], entries[-1][0], len(items))


def _primitive_meta(typ: t.Type, where: Value, table: Data, low: Value, high: Value, length: int) -> Value:
    entry = t.named("DictEntry", t.record((("Value", typ), ("Count", t.UINT32))))
    return make(
        "Primitive",
        {
            "Type": Value(t.TYPE, typ),
            "Location": where,
            "Dict": Value(t.array(entry), table),
            "Min": low,
            "Max": high,
            "Count": count(length),
        },
    )


def _bounds(typ: t.Type, items: list[Data]) -> tuple[Value, Value]:
    """The least and the greatest value, where Python's order is that of Zed; nulls elsewhere."""
    if not items or not (t.is_number(typ) or typ in (t.STRING, t.BOOL)):
        return v.NULL, v.NULL
    if typ in t.FLOATS and any(map(math.isnan, items)):
        return v.NULL, v.NULL
    low, high = min(items), max(items)
    if typ is t.STRING and len(low) + len(high) > _MAX_METADATA_VALUE:
        return v.NULL, v.NULL
    return Value(typ, low), Value(typ, high)
