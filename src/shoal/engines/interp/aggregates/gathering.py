"""Aggregates that keep what they are given: `any`, `collect`, `collect_map`, `union` and `fuse`.

The state of an aggregate that keeps values is packed. An array of the values themselves would not do: it would turn
several types into a union, and a value that was in a union before would look like one that was not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from shoal.engines.interp.aggregates.contract import Limits
from shoal.engines.interp.spill import estimate
from shoal.engines.stopping import Stop
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.extent import check_parts
from shoal.model.fusion import Fusion
from shoal.model.values import NULL, Value, text_error
from shoal.model.zcode import Data, decode, encode, normal_map, normal_set

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


_DEEP = 16
"""Below this depth a value is as large as the data it was made of; above, it may be much larger than it looks."""


def require_room(stop: Stop | None) -> None:
    """Fail where memory is limited; elsewhere the oldest values go."""
    if stop is not None:
        raise stop.out_of_memory()


class Any:
    """The first value that is not null; the first of all if there are but nulls."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: Value | None = None

    def consume(self, value: Value) -> None:
        current = self._value
        if current is None or (current.data is None and value.data is not None):
            self._value = value

    def result(self) -> Value:
        return self._value or NULL

    def partial(self) -> Value:
        return pack([self._value] if self._value else [])

    def merge(self, partial: Value) -> None:
        for value in unpack(partial):
            self.consume(value)


class Collect:
    """An array of the values, without names and unions around them; nulls are left out."""

    __slots__ = ("_room", "_stop", "_values")

    def __init__(self, limits: Limits = Limits()) -> None:
        self._stop = limits.stop
        self._values: deque[tuple[Value, int]] = deque()
        self._room = limits.value_bytes

    def consume(self, value: Value) -> None:
        if value.data is not None:
            self._append(value.under())

    def _append(self, value: Value) -> None:
        if value.type.depth > _DEEP:
            check_parts(value.type, value.data)
        size = len(encode(value.type, value.data) or b"")
        self._values.append((value, size))
        self._room -= size
        while self._room < 0:
            require_room(self._stop)
            self._room += self._values.popleft()[1]

    def result(self) -> Value:
        return contained(self._array) if self._values else NULL

    def _array(self) -> Value:
        elem, data = unify([value for value, _ in self._values])
        return Value(t.array(elem), tuple(data))

    def partial(self) -> Value:
        return pack(value for value, _ in self._values)

    def merge(self, partial: Value) -> None:
        for value in unpack(partial):
            self._append(value)


class Union:
    """The set of the values, each with its own type; nulls are left out."""

    __slots__ = ("_room", "_stop", "_values")

    def __init__(self, limits: Limits = Limits()) -> None:
        self._stop = limits.stop
        self._values: dict[tuple[t.Type, bytes], Data] = {}
        self._room = limits.value_bytes

    def consume(self, value: Value) -> None:
        body = encode(value.type, value.data)
        if body is None or (value.type, body) in self._values:
            return
        self._values[value.type, body] = value.data
        self._room -= len(body)
        while self._room < 0:
            require_room(self._stop)
            oldest = next(iter(self._values))
            del self._values[oldest]
            self._room += len(oldest[1])

    def result(self) -> Value:
        return contained(self._set) if self._values else NULL

    def _set(self) -> Value:
        elem, data = unify([Value(typ, data) for (typ, _), data in self._values.items()])
        return Value(t.set_of(elem), normal_set(elem, data))

    def partial(self) -> Value:
        return pack(Value(typ, data) for (typ, _), data in self._values.items())

    def merge(self, partial: Value) -> None:
        for value in unpack(partial):
            self.consume(value)


class CollectMap:
    """One map of the entries of all maps; of entries with the same key the last one counts."""

    __slots__ = ("_entries", "_room", "_stop")

    def __init__(self, limits: Limits = Limits()) -> None:
        self._entries: dict[Value, Value] = {}
        self._room, self._stop = limits.value_bytes, limits.stop

    def consume(self, value: Value) -> None:
        typ = value.type.under
        if isinstance(typ, t.Map) and value.data is not None:
            for key, item in value.data:
                self._put(_out_of_union(typ.key, key), _out_of_union(typ.value, item))

    def _put(self, key: Value, item: Value) -> None:
        if self._stop is not None and key not in self._entries:
            self._room -= estimate(key) + estimate(item)
            if self._room < 0:
                require_room(self._stop)
        self._entries[key] = item

    def result(self) -> Value:
        return contained(self._map) if self._entries else NULL

    def _map(self) -> Value:
        key, keys = unify(list(self._entries))
        item, items = unify(list(self._entries.values()))
        return Value(t.map_of(key, item), normal_map(key, zip(keys, items, strict=True)))

    def partial(self) -> Value:
        return pack([*self._entries, *self._entries.values()])

    def merge(self, partial: Value) -> None:
        values = list(unpack(partial))
        half = len(values) // 2
        for key, item in zip(values[:half], values[half:], strict=True):
            self._put(key, item)


def _out_of_union(typ: t.Type, data: Data) -> Value:
    """A value out of its unions; one that is in none keeps its name."""
    value = Value(typ, data)
    return value.under() if isinstance(typ.under, t.Union) else value


TYPES = t.array(t.TYPE)
"""The partial result of a fusion."""


class Fuse:
    """The type that the types of all values fuse to, those of nulls and errors too."""

    __slots__ = ("_fusion",)

    def __init__(self) -> None:
        self._fusion = Fusion()

    def consume(self, value: Value) -> None:
        self._fusion.mix(value.type)

    def result(self) -> Value:
        return contained(lambda: Value(t.TYPE, self._fusion.type))

    def partial(self) -> Value:
        return Value(TYPES, self._fusion.types)

    def merge(self, partial: Value) -> None:
        for typ in partial.data:
            self._fusion.mix(typ)
