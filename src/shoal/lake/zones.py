"""Zone maps: the least and the greatest value of each column of an object, so that filters can skip it.

For each leaf of the layout, in its order, there are two bounds, for the least and the greatest value: a length in
one byte and the binary form of the value. A long value is cut such that it still is a bound. The length 255 means an
unknown bound; two lengths of 254 mean that all values are null. A NaN, which no comparison finds, does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shoal.formats.columns.layouts import Layout, Leaf, Path, layout_of
from shoal.lake.keys import Bound, KeyRange
from shoal.lake.objects import DataObject
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data, decode, encode

_UNKNOWN = 255
_NOTHING = 254
LONGEST_BOUND = 32
"""Bytes; longer values are cut."""
ORDERED = frozenset((
    *t.SIGNED, *t.UNSIGNED, *t.FLOATS, t.DURATION, t.TIME, t.DATE, t.STRING, t.BYTES, t.IP, t.BOOL,
))  # fmt: skip
"""Types that have zones: Arrow orders them as Zed does, but for NaN."""
_CUT = (t.STRING, t.BYTES)


class Extent(NamedTuple):
    """The bounds of a column: `least` and `greatest` are None together if there are no values."""

    least: Data
    greatest: Data


class Zone(NamedTuple):
    """Bounds of the values in a column; a bound of None is unknown."""

    least: Value | None
    greatest: Value | None
    is_empty: bool = False
    """Whether there is nothing but nulls."""


# ---- packed


def pack(layout: Layout, extents: list[Extent | None]) -> bytes:
    """The zones of all leaves; None where a bound is unknown."""
    out = bytearray()
    for leaf, extent in zip(layout.leaves, extents, strict=True):
        if extent is None:
            out += bytes((_UNKNOWN, _UNKNOWN))
        elif extent.least is None:
            out += bytes((_NOTHING, _NOTHING))
        else:
            out += _bound(leaf.type, extent.least, is_upper=False)
            out += _bound(leaf.type, extent.greatest, is_upper=True)
    return bytes(out)


def _bound(typ: t.Type, data: Data, is_upper: bool) -> bytes:
    body = encode(typ, data) or b""
    if typ in _CUT and len(body) > LONGEST_BOUND:
        cut = _cut_up(body) if is_upper else _cut_down(body, typ)
        if cut is None:
            return bytes((_UNKNOWN,))
        body = cut
    return bytes((len(body),)) + body


def _cut_down(body: bytes, typ: t.Type) -> bytes:
    """The beginning, which is not greater; of a string, whole characters."""
    head = body[:LONGEST_BOUND]
    return head if typ is t.BYTES else head.decode(errors="ignore").encode()


def _cut_up(body: bytes) -> bytes | None:
    """Something short that is not less: the beginning, with the last of its characters raised that is ASCII."""
    for end in range(LONGEST_BOUND, 0, -1):
        if body[end - 1] < 0x7F:
            return body[: end - 1] + bytes((body[end - 1] + 1,))
    return None


def unpack(zones: bytes, layout: Layout, index: int) -> Zone | None:
    """The zone of one leaf; None if there are no zones."""
    if not zones:
        return None
    pos = 0
    for _ in range(2 * index):
        size = zones[pos]
        pos += 1 if size >= _NOTHING else 1 + size
    typ = layout.leaves[index].type
    if zones[pos] == _NOTHING:
        return Zone(None, None, is_empty=True)
    least, pos = _unpack_bound(zones, pos, typ)
    greatest, _ = _unpack_bound(zones, pos, typ)
    return Zone(least, greatest)


def _unpack_bound(zones: bytes, pos: int, typ: t.Type) -> tuple[Value | None, int]:
    size = zones[pos]
    if size == _UNKNOWN:
        return None, pos + 1
    end = pos + 1 + size
    return Value(typ, decode(typ, zones[pos + 1 : end])), end


# ---- in use


class FieldRange(NamedTuple):
    """A condition of a filter: it is true only for records whose field is in a range."""

    path: Path
    key_range: KeyRange


def may_match(o: DataObject, condition: FieldRange) -> bool:
    """Whether an object can have a record that meets a condition. In doubt it can."""
    if o.shapes is None:
        return True
    layout = layout_of(tuple(shape for shape, _ in o.shapes))
    leaves = list(_leaves_at(layout, condition.path))
    return any(leaf is None or _may_hold(o, layout, leaf, condition.key_range) for leaf in leaves)


def ranges_at(o: DataObject, path: Path) -> list[KeyRange] | None:
    """Ranges that hold all values at a path of an object; None if that is not known."""
    if o.shapes is None or not o.zones:
        return None
    layout = layout_of(tuple(shape for shape, _ in o.shapes))
    ranges = []
    for leaf in _leaves_at(layout, path):
        zone = None if leaf is None else unpack(o.zones, layout, leaf.index)
        if zone is None or (not zone.is_empty and (zone.least is None or zone.greatest is None)):
            return None
        if zone.least is not None and zone.greatest is not None:
            ranges.append(KeyRange(Bound(zone.least), Bound(zone.greatest)))
    return ranges


def _leaves_at(layout: Layout, path: Path) -> Iterator[Leaf | None]:
    """The leaves where the values at a path are; None for something else, that may hold anything."""
    slots = [layout.root]
    for name in path:
        inside = []
        for slot in slots:
            if any(_is_open(leaf.type) for leaf in slot.leaves.values()):
                yield None
            if slot.struct is not None and name in slot.struct.fields:
                inside.append(slot.struct.fields[name])
        slots = inside
    for slot in slots:
        yield from slot.leaves.values()


def _is_open(typ: t.Type) -> bool:
    """Whether paths lead on inside of such a value."""
    return isinstance(typ.under, t.Union | t.Map) or typ.under is t.TYPE


def _may_hold(o: DataObject, layout: Layout, leaf: Leaf, key_range: KeyRange) -> bool:
    bound = key_range.lower or key_range.upper
    if bound is None:
        return True
    kind, typ = bound.value.type.under, leaf.type
    if isinstance(typ, t.Union | t.Enum) or {kind, typ} == {t.DATE, t.TIME}:
        return True
    is_alike = t.is_number(typ) if t.is_number(kind) else typ is kind
    if not is_alike:
        return False
    zone = unpack(o.zones, layout, leaf.index) if o.zones else None
    if zone is None:
        return True
    if zone.is_empty:
        return False
    return key_range.may_hold_between(zone.least, zone.greatest)
