"""Values: a type and plain Python data that means something only beside that type.

    uint*, int*           int
    duration, time        int, nanoseconds (since 1970 for a time)
    float*                float, already rounded to its size
    decimal               decimal.Decimal, with the scale of its type
    date                  int, days since 1970
    bool, string, bytes   bool, str, bytes
    ip                    bytes, 4 or 16
    net                   bytes, an ip followed by its mask
    type                  Type
    enum                  int, the position of the symbol
    record                tuple, one item a field
    array                 tuple
    set                   tuple, distinct, in canonical order
    map                   tuple of (key, value), distinct keys, in canonical order
    union                 (tag, data); None for a member of type null, too
    error                 the data it wraps
    null of any type      None

Nested data has no type of its own: it takes it from the type above it. So a record costs one
object and its fields cost none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.zcode import Data, encode, normal_map, normal_set

if TYPE_CHECKING:
    from shoal.model import text as zson
else:
    zson = lazy("shoal.model.text")


class Value:
    """One typed value."""

    __slots__ = {
        "data": "Plain Python data, such as a tuple of the fields of a record; None for a null.",
        "type": "The Zed type, which says what the data means.",
    }

    def __init__(self, typ: t.Type, data: Data) -> None:
        self.type = typ
        self.data = data

    def __eq__(self, other: object) -> bool:
        """The very same value: same type and same bits (NaN equals itself, -0. is not 0.)."""
        if not isinstance(other, Value) or self.type is not other.type:
            return False
        if self.type.has_float or self.type is t.TYPE:
            return encode(self.type, self.data) == encode(other.type, other.data)
        return bool(self.data == other.data)

    def __hash__(self) -> int:
        return hash((id(self.type), encode(self.type, self.data)))

    def __repr__(self) -> str:
        """The value in ZSON."""
        try:
            return zson.format_value(self)
        except Exception:  # data that does not fit its type is shown as it is
            return f"Value({self.type!r}, {self.data!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Value, (self.type, self.data))

    @property
    def is_null(self) -> bool:
        """Whether this is a null of any type."""
        return self.data is None

    def under(self) -> Value:
        """This value without the names of its type, and out of its unions."""
        value = self
        while True:
            typ = value.type.under
            if isinstance(typ, t.Union) and value.data is not None:
                tag, data = value.data
                value = Value(typ.types[tag], data)
            elif typ is not value.type:
                value = Value(typ, value.data)
            else:
                return value

    def field(self, name: str) -> Value | None:
        """The field of this name; None if this is not a record or has no such field."""
        typ = self.type.under
        if not isinstance(typ, t.Record) or name not in typ.index:
            return None
        i = typ.index[name]
        return Value(typ.fields[i].type, None if self.data is None else self.data[i])


NULL = Value(t.NULL, None)
TRUE = Value(t.BOOL, True)
FALSE = Value(t.BOOL, False)


def string(text: str) -> Value:
    """A string."""
    return Value(t.STRING, text)


def int64(n: int) -> Value:
    """An int64."""
    return Value(t.INT64, n)


def error(inner: Value) -> Value:
    """An error that wraps a value."""
    return Value(t.error(inner.type), inner.data)


def text_error(message: str) -> Value:
    """An error that is a mere message."""
    return error(string(message))


def structured_error(message: str, on: Value) -> Value:
    """`error({message,on})`: what went wrong and the value it went wrong with.

    A value that nests too deep to be put into anything leaves the bare message.
    """
    if on.type.depth > t.MAX_DEPTH - 2:
        return text_error(message)
    typ = t.record((("message", t.STRING), ("on", on.type)))
    return Value(t.error(typ), (message, on.data))


MISSING = text_error("missing")
"""What an absent field, index or key evaluates to."""
QUIET = text_error("quiet")
"""A missing that `cut`, `yield` and grouping drop without a trace."""


def is_error(value: Value) -> bool:
    """Whether the value is an error of any type."""
    return isinstance(value.type.under, t.Error)


def is_missing(value: Value) -> bool:
    """Whether the value is `error("missing")`."""
    return value.type is MISSING.type and value.data == "missing"


def is_quiet(value: Value) -> bool:
    """Whether the value is `error("quiet")`."""
    return value.type is QUIET.type and value.data == "quiet"


def record(fields: Iterable[tuple[str, Value]]) -> Value:
    """A record of these fields."""
    pairs = list(fields)
    return Value(t.record((n, v.type) for n, v in pairs), tuple(v.data for _, v in pairs))


def array(elems: Iterable[Value]) -> Value:
    """An array; elements of several types make it an array of a union."""
    elem, data = _unify(list(elems))
    return Value(t.array(elem), tuple(data))


def set_of(elems: Iterable[Value]) -> Value:
    """A set; elements of several types make it a set of a union."""
    elem, data = _unify(list(elems))
    return Value(t.set_of(elem), normal_set(elem, data))


def map_of(entries: Iterable[tuple[Value, Value]]) -> Value:
    """A map; keys or values of several types become unions."""
    pairs = list(entries)
    key, keys = _unify([k for k, _ in pairs])
    value, values = _unify([v for _, v in pairs])
    return Value(t.map_of(key, value), normal_map(key, zip(keys, values, strict=True)))


def _unify(values: list[Value]) -> tuple[t.Type, list[Data]]:
    """One type for all the values, and their data in it. Nulls without a type take any."""
    kinds = t.unique_types(v.type for v in values if v.type is not t.NULL)
    if len(kinds) < 2:
        return (kinds[0] if kinds else t.NULL), [v.data for v in values]
    typ = t.union(kinds)
    return typ, [None if v.type is t.NULL else (typ.tags[v.type], v.data) for v in values]
