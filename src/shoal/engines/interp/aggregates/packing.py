"""Values of any types as one value of a fixed type: how aggregates that hold values write their state.

An array of the values themselves would not do: it would turn several types into a union, and a value
that was in a union before would look like one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.values import Value, text_error
from shoal.model.zcode import Data, decode, encode

PACKED = t.array(t.record((("type", t.TYPE), ("bodies", t.array(t.BYTES)))))
"""Runs of values of the same type."""


def pack(values: Iterable[Value]) -> Value:
    """The values, in order, as one value."""
    runs = groupby(values, key=lambda value: value.type)
    return Value(PACKED, tuple((typ, tuple(encode(typ, v.data) for v in run)) for typ, run in runs))


def unpack(packed: Value) -> Iterator[Value]:
    """The inverse of `pack`."""
    for typ, bodies in packed.data:
        for body in bodies:
            yield Value(typ, decode(typ, body))


def unify(values: Sequence[Value]) -> tuple[t.Type, list[Data]]:
    """One type for all the values, a union if they have several, and their data in it."""
    kinds = {value.type for value in values}
    if len(kinds) == 1:
        return kinds.pop(), [value.data for value in values]
    union = t.union(kinds)
    return union, [None if v.type is t.NULL else (union.tags[v.type], v.data) for v in values]


def contained(make: Callable[[], Value]) -> Value:
    """What `make` makes, or an error value if its type nests too deep or has too many parts."""
    try:
        return make()
    except InvalidInput as e:
        return text_error(str(e))
