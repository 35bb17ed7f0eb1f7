"""The bodies of ZNG values in memory: where those of one field of many values begin and end.

numpy reads the tags of one field of all values at a time; they tell where the next field begins.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.formats.columns.batches import Rows
from shoal.model import types as t
from shoal.model.zcode import read_uvarint

_LONG = 256
"""Elements up to which arrays are taken apart side by side."""
_PADDING = bytes(16)
"""Behind the values, so that eight bytes can be read anywhere."""

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class Irregular(Exception):
    """Values that are malformed, or not worth columns: the value decoder takes them."""


class Bodies(NamedTuple):
    """Where bodies of one type begin and end, ascending. That of a null is empty."""

    starts: Rows
    stops: Rows
    nulls: Mask | None
    """Which of them are null; None if none are."""

    @property
    def sizes(self) -> Rows:
        return self.stops - self.starts

    def present(self) -> Bodies:
        """Those that are not null."""
        return self if self.nulls is None else self.picked(np.flatnonzero(~self.nulls))

    def picked(self, rows: Rows) -> Bodies:
        """Some of them."""
        return Bodies(self.starts[rows], self.stops[rows], None if self.nulls is None else self.nulls[rows])


class TaggedBytes:
    """The bytes of some frames, end to end."""

    def __init__(self, payloads: list[bytes]) -> None:
        self.data = b"".join([*payloads, _PADDING])
        self.bytes: Bytes = np.frombuffer(self.data, np.uint8)
        shape = (len(self.data) - 7,)
        self.words: np.ndarray[Any, np.dtype[np.uint64]] = np.ndarray(shape, "<u8", self.data, strides=(1,))
        """The eight bytes from each byte on."""
        self.buffer = pa.py_buffer(self.data)

    def uvarints(self, places: Rows) -> tuple[Rows, Rows]:
        """The varints at some places, and the places after them."""
        numbers = self.bytes[places].astype(np.int64)
        places = places + 1
        rows = np.flatnonzero(numbers > 127)
        numbers[rows] &= 127
        shift = 7
        while len(rows):
            if shift > 49:
                raise Irregular
            more = self.bytes[places[rows]].astype(np.int64)
            places[rows] += 1
            numbers[rows] |= (more & 127) << shift
            rows = rows[more > 127]
            shift += 7
        return numbers, places

    def tagged(self, places: Rows) -> Bodies:
        """The tagged bodies at some places."""
        tags = self.bytes[places]
        if not len(tags) or tags.max() < 128:
            starts, stops = places + 1, places + np.maximum(tags, 1)
        else:
            numbers, starts = self.uvarints(places)
            stops = starts + np.maximum(numbers - 1, 0)
        return Bodies(starts, stops, tags == 0 if len(tags) and not tags.min() else None)

    def fields_of(self, typ: t.Record, bodies: Bodies) -> list[Bodies]:
        """The fields of records, none of which is null."""
        out = []
        places = bodies.starts
        for _ in typ.fields:
            field = self.tagged(places)
            out.append(field)
            places = field.stops
        if (places != bodies.stops).any():
            raise Irregular
        return out

    def elements(self, bodies: Bodies) -> tuple[Rows, Bodies]:
        """How many elements each array has, and all of them."""
        counts = np.zeros(len(bodies.starts), np.int64)
        active = np.flatnonzero(bodies.stops > bodies.starts)
        places = bodies.starts[active]
        steps: list[tuple[Rows, Bodies]] = []
        while len(active) and len(steps) < _LONG:
            elements = self.tagged(places)
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

    def _split(self, start: int, stop: int) -> Bodies:
        """The elements of one long array."""
        data, pos = self.data, int(start)
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
        return Bodies(
            np.frombuffer(starts, np.int64), np.frombuffer(stops, np.int64), is_null if is_null.any() else None
        )


def _placed(pieces: list[tuple[Rows, Bodies]], count: int) -> Bodies:
    """Bodies, each at its place."""
    starts, stops, nulls = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, bool)
    for places, bodies in pieces:
        starts[places], stops[places] = bodies.starts, bodies.stops
        if bodies.nulls is not None:
            nulls[places] = bodies.nulls
    return Bodies(starts, stops, nulls if nulls.any() else None)
