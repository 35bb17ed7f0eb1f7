"""Converts Zed values to plain Python objects and back: `from_python(to_python(value)) == value` for every value.

    null, bool, int64, float64, string, bytes   None, bool, int, float, str, bytes
    time, duration    numpy.datetime64, numpy.timedelta64, of nanoseconds
    date, decimal     datetime.date, decimal.Decimal; one that has not 18 or 38 digits remembers its type
    ip, net           objects of `ipaddress`; a net with bits beyond its mask is an interface
    type              the type
    record, array     dict, list
    set, map          frozenset, dict; a list if Python treats elements as equal or cannot hash them
    error             Error
    other ints and floats, enums, named types   int, float, str, ... that remember their type
    typed nulls, unions, all others             the Value itself

Inside a record, array, set or map all nulls are None and all ints are int: the container remembers the types of its
parts. If it was changed and no longer fits its type, the type is inferred again.

numpy is loaded for the first time or duration that is converted to Python; no other library is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from types import NoneType
from typing import Any
from uuid import UUID

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model import values
from shoal.model.decimals import fit as fit_decimal
from shoal.model.decimals import parse_exactly
from shoal.model.literals import make_net, round_float
from shoal.model.node import frozen
from shoal.model.values import NULL, Value
from shoal.model.zcode import Data, normal_map, normal_set

Typing = tuple[t.Type, Data]
NATURAL = frozenset((
    t.BOOL, t.INT64, t.FLOAT64, t.STRING, t.BYTES, t.TIME, t.DURATION, t.DATE, t.IP, t.NET, t.TYPE,
))  # fmt: skip
"""The types that the class of a Python object implies."""

_NOT_A_TIME = -(2**63)
"""NaT in numpy. In Zed it is a time like any other."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = _EPOCH.toordinal()
_FEW_DIGITS = 18
"""A decimal has this many digits, or as many as there can be."""


@frozen
class Error:
    """A Zed error and the value it wraps, such as `Error("missing")`."""

    inner: Any

    def __repr__(self) -> str:
        return f"Error({self.inner!r})"


class Typed:
    """A Python object that remembers its Zed type, because its class does not imply it."""

    zed_type: t.Type


class TypedInt(Typed, int):
    """An int that is not an int64."""


class TypedFloat(Typed, float):
    """A float that is not a float64."""


class TypedStr(Typed, str):
    """The symbol of an enum, or a string with a type name."""


class TypedBytes(Typed, bytes):
    """Bytes with a type name."""


class TypedDecimal(Typed, Decimal):
    """A decimal of another type than its digits imply, or with a type name."""


class TypedDict(Typed, dict[Any, Any]):
    """A record or a map."""


class TypedList(Typed, list[Any]):
    """An array, or a set or map that does not fit a frozenset or dict."""


class TypedSet(Typed, frozenset[Any]):
    """A set."""


_TYPED: dict[type, Callable[[Any], Any]] = {
    int: TypedInt, float: TypedFloat, str: TypedStr, bytes: TypedBytes, Decimal: TypedDecimal,
    dict: TypedDict, list: TypedList, frozenset: TypedSet,
}  # fmt: skip


# ---- to Python


def to_python(value: Value) -> Any:
    """Convert a value to a Python object."""
    typ, data = value.type, value.data
    if data is None:
        return None if typ is t.NULL else value
    if isinstance(typ.under, t.Union):
        return value
    plain = _plain(typ, data)
    if typ in NATURAL or isinstance(typ, t.Error) or (isinstance(typ, t.Decimal) and _decimal(plain)[0] is typ):
        return plain
    return remember(plain, typ) if type(plain) in _TYPED else value


def remember(plain: Any, typ: t.Type) -> Any:
    """A copy of the object that remembers its type."""
    typed = _TYPED[type(plain)](plain)
    typed.zed_type = typ
    return typed


def to_cell(value: Value | None) -> Any:
    """A value of a column as an object; the type of nulls and unions follows from the column."""
    if value is None or value.data is None:
        return None
    if isinstance(value.type, t.Union):
        tag, data = value.data
        return to_python(Value(value.type.types[tag], data))
    return to_python(value)


def _plain(typ: t.Type, data: Data) -> Any:
    """An object that `fit` converts back to the data, given the type."""
    if data is None:
        return None
    typ = typ.under
    match typ:
        case t.Primitive():
            return scalar_object(typ, data)
        case t.Record():
            return {f.name: _plain(f.type, d) for f, d in zip(typ.fields, data, strict=True)}
        case t.Array():
            return [_plain(typ.elem, d) for d in data]
        case t.Set():
            return _collected(frozenset, [_plain(typ.elem, d) for d in data])
        case t.Map():
            return _collected(dict, [(_plain(typ.key, k), _plain(typ.value, v)) for k, v in data])
        case t.Union():
            return to_cell(Value(typ, data))
        case t.Enum():
            return typ.symbols[data]
        case t.Error():
            return Error(to_python(Value(typ.inner, data)))
        case _:
            raise AssertionError(typ)


def _collected(collect: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    """Items as a set or dict if they stay distinct: to Python, 1 and True are equal."""
    try:
        collection = collect(items)
    except TypeError:
        return items
    return collection if len(collection) == len(items) else items


# ---- from Python, with a given type


class TypeMismatch(InvalidInput):
    """An object does not fit the expected type."""


def fit(typ: t.Type, obj: Any) -> Data:
    """Convert an object to data of this type; TypeMismatch if it does not fit."""
    if obj is None:
        return None
    if isinstance(obj, Value) and obj.type is typ:
        return obj.data
    typ = typ.under
    match typ:
        case t.Primitive():
            return _fit_primitive(typ, obj)
        case t.Record() if isinstance(obj, dict) and obj.keys() == typ.index.keys():
            return tuple(fit(f.type, obj[f.name]) for f in typ.fields)
        case t.Array() if isinstance(obj, list):
            return tuple(fit(typ.elem, item) for item in obj)
        case t.Set() if isinstance(obj, (frozenset, list)):
            return normal_set(typ.elem, [fit(typ.elem, item) for item in obj])
        case t.Map() if isinstance(obj, (dict, list)):
            return normal_map(typ.key, [(fit(typ.key, k), fit(typ.value, v)) for k, v in _entries(obj)])
        case t.Union() if (value := from_python(obj)).type in typ.tags:
            return None if value.type is t.NULL else (typ.tags[value.type], value.data)
        case t.Enum() if isinstance(obj, str) and obj in typ.symbols:
            return typ.symbols.index(obj)
        case t.Error() if isinstance(obj, Error):
            return fit(typ.inner, obj.inner)
        case _:
            raise TypeMismatch(f"does not fit its type any more: {obj!r}")


def _entries(obj: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(obj, dict):
        return obj.items()
    if all(isinstance(entry, tuple) and len(entry) == 2 for entry in obj):
        return obj  # type: ignore[no-any-return]
    raise TypeMismatch("not the entries of a map")


def _fit_primitive(typ: t.Primitive, obj: Any) -> Data:
    value = _infer(obj, 0)
    if value.type is typ or value.data is None:
        return value.data
    if typ in t.UNSIGNED | t.SIGNED and value.type in (t.INT64, t.UINT64):
        low, high = t.INT_RANGES[typ]
        if low <= value.data <= high:
            return value.data
    if typ in t.FLOATS and value.type is t.FLOAT64:
        return round_float(value.data, 2 if typ is t.FLOAT16 else 4)
    if isinstance(typ, t.Decimal) and isinstance(value.type, t.Decimal):
        return _fit_decimal(typ, value.data)
    raise TypeMismatch(f"not of type {typ.name}: {obj!r}")


def _fit_decimal(typ: t.Decimal, number: Decimal) -> Decimal:
    try:
        return parse_exactly(str(number), typ)
    except InvalidInput as e:
        raise TypeMismatch(str(e)) from None


# ---- from Python, with an inferred type


def from_python(obj: Any) -> Value:
    """Convert a Python object to a Zed value, of the type that it remembers or that its class implies."""
    return _from(obj, 0)


def _from(obj: Any, depth: int) -> Value:
    if isinstance(obj, Typed):
        try:
            return Value(obj.zed_type, fit(obj.zed_type, obj))
        except TypeMismatch:
            pass
    return _infer(obj, depth)


def column_type(cells: Iterable[Any]) -> t.Type:
    """The type of a column: the common type of its cells, or the union of their types. None fits any type."""
    kinds = t.unique_types(from_python(c).type for c in cells if c is not None)
    return t.union(kinds) if len(kinds) > 1 else kinds[0] if kinds else t.NULL


def _infer(obj: Any, depth: int) -> Value:
    if depth > t.MAX_DEPTH:
        raise InvalidInput(f"value nests deeper than {t.MAX_DEPTH} levels")
    for kind in type(obj).__mro__:
        if kind in SCALARS:
            return Value(*SCALARS[kind](obj))
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](obj, depth + 1)
    if hasattr(obj, "dtype") and hasattr(obj, "tolist"):
        return values.array(_all(obj, depth + 1)) if obj.shape else Value(*numpy_scalar(obj))
    if type(obj).__name__ == "NAType":  # a missing value of pandas
        return NULL
    raise InvalidInput(
        f"no Zed value for a Python object of type {type(obj).__name__} (convert it to a str, a dict, ...)"
    )


def _all(items: Iterable[Any], depth: int) -> Iterator[Value]:
    return (_from(item, depth) for item in items)


def _dict(obj: dict[Any, Any], depth: int) -> Value:
    """A record; a map if not all keys are strings."""
    items = list(_all(obj.values(), depth))
    if not all(isinstance(key, str) for key in obj):
        return values.map_of(zip(_all(obj, depth), items, strict=True))
    names = tuple(key if type(key) is str and key.isascii() else text(key) for key in obj)
    return Value(t.record_of(names, tuple(v.type for v in items)), tuple(v.data for v in items))


_CONTAINERS: dict[type, Callable[[Any, int], Value]] = {
    dict: _dict,
    list: lambda obj, depth: values.array(_all(obj, depth)),
    tuple: lambda obj, depth: values.array(_all(obj, depth)),
    set: lambda obj, depth: values.set_of(_all(obj, depth)),
    frozenset: lambda obj, depth: values.set_of(_all(obj, depth)),
    Error: lambda obj, depth: values.error(_from(obj.inner, depth)),
}


# ---- scalars to Python


def scalar_object(typ: t.Type, data: Data) -> Any:
    """Convert primitive data to a Python object; a Value if Python has no such object."""
    return _OBJECTS[typ](data) if typ in _OBJECTS else data


def _numpy_time(typ: t.Type, name: str) -> Callable[[int], Any]:
    def make(nanoseconds: int) -> Any:
        import numpy  # noqa: PLC0415 - most results have no times

        return Value(typ, nanoseconds) if nanoseconds == _NOT_A_TIME else getattr(numpy, name)(nanoseconds, "ns")

    return make


def _ip_object(data: bytes) -> IPv4Address | IPv6Address:
    return IPv4Address(data) if len(data) == 4 else IPv6Address(data)


def _net_object(data: bytes) -> Any:
    half = len(data) // 2
    bits = int.from_bytes(data[half:], "big").bit_count()
    interface: Any = (IPv4Interface if half == 4 else IPv6Interface)((data[:half], bits))
    return interface.network if interface.network.network_address == interface.ip else interface


_OBJECTS: dict[t.Type, Callable[[Data], Any]] = {
    t.TIME: _numpy_time(t.TIME, "datetime64"),
    t.DURATION: _numpy_time(t.DURATION, "timedelta64"),
    t.DATE: lambda days: date.fromordinal(days + _FIRST_DAY),
    t.IP: _ip_object,
    t.NET: _net_object,
}


# ---- scalars from Python


def _int(obj: int) -> Typing:
    if not -(2**63) <= obj < 2**64:
        raise InvalidInput("an int of more than 64 bits (convert it to a float or a str)")
    return (t.INT64 if obj < 2**63 else t.UINT64), int(obj)


def text(obj: str) -> str:
    """Return the text; InvalidInput if it cannot be encoded."""
    try:
        obj.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{obj!r} is not valid text: it contains half of a surrogate pair") from None
    return str.__str__(obj)


def _time(obj: Any) -> Typing:
    """An instant; without a time zone it is in UTC."""
    if hasattr(obj, "to_datetime64"):  # a pandas Timestamp, with nanoseconds, or NaT
        return numpy_scalar(obj.to_datetime64())
    aware = obj if obj.tzinfo is not None else obj.replace(tzinfo=UTC)
    return t.TIME, _nanoseconds((aware - _EPOCH) // timedelta(microseconds=1) * 1000, obj)


def _duration(obj: Any) -> Typing:
    if hasattr(obj, "to_timedelta64"):
        return numpy_scalar(obj.to_timedelta64())
    return t.DURATION, _nanoseconds(obj // timedelta(microseconds=1) * 1000, obj)


def _day(obj: date) -> Typing:
    return t.DATE, obj.toordinal() - _FIRST_DAY


def _decimal(obj: Decimal) -> Typing:
    """A decimal with the digits after the point that the object has."""
    if not obj.is_finite():
        raise InvalidInput(f"{obj} is not a number that a decimal can hold (convert it to a float)")
    _, digits, exponent = obj.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    count = max(len(digits) + max(0, exponent), scale)
    if count > t.MAX_DIGITS:
        raise InvalidInput(f"{obj} has more than {t.MAX_DIGITS} digits (convert it to a float or a str)")
    typ = t.decimal(_FEW_DIGITS if count <= _FEW_DIGITS else t.MAX_DIGITS, scale)
    return typ, fit_decimal(Decimal(obj), typ)


def _nanoseconds(count: int, obj: object) -> int:
    if not -(2**63) <= count < 2**63:
        raise InvalidInput(f"{obj} is out of range: 64 bits of nanoseconds reach 292 years, from 1677 to 2262")
    return count


def _ip(obj: IPv4Address | IPv6Address) -> Typing:
    if getattr(obj, "scope_id", None) is not None:
        raise InvalidInput(f"{obj}: a zone is not part of an address (remove it)")
    return t.IP, obj.packed


def _interface(obj: Any) -> Typing:
    return t.NET, make_net(_ip(obj.ip)[1], obj.network.prefixlen)


def _net(obj: IPv4Network | IPv6Network) -> Typing:
    return t.NET, make_net(obj.network_address.packed, obj.prefixlen)


SCALARS: dict[type, Callable[[Any], Typing]] = {
    NoneType: lambda obj: (t.NULL, None),
    bool: lambda obj: (t.BOOL, obj),
    int: _int,
    float: lambda obj: (t.FLOAT64, float(obj)),
    str: lambda obj: (t.STRING, text(obj)),
    bytes: lambda obj: (t.BYTES, bytes(obj)),
    bytearray: lambda obj: (t.BYTES, bytes(obj)),
    memoryview: lambda obj: (t.BYTES, obj.tobytes()),
    UUID: lambda obj: (t.STRING, str(obj)),
    datetime: _time,
    timedelta: _duration,
    date: _day,
    Decimal: _decimal,
    IPv4Interface: _interface,
    IPv6Interface: _interface,
    IPv4Address: _ip,
    IPv6Address: _ip,
    IPv4Network: _net,
    IPv6Network: _net,
    t.Type: lambda obj: (t.TYPE, obj),
    Value: lambda obj: (obj.type, obj.data),
}
"""Converters of scalar objects to Zed types and data, by class; they apply to subclasses as well."""


def numpy_scalar(obj: Any) -> Typing:
    """A number, bool, time or duration of numpy."""
    kind = obj.dtype.kind
    if kind in "mM":
        return _numpy_instant(obj, *((t.TIME, "datetime64[ns]") if kind == "M" else (t.DURATION, "timedelta64[ns]")))
    typ = t.PRIMITIVES.get(obj.dtype.name)
    if typ is None:
        raise InvalidInput(f"no Zed value for {obj.dtype.name} of numpy (convert it to a float64, an int64, ...)")
    return typ, obj.item()


def _numpy_instant(obj: Any, typ: t.Type, unit: str) -> Typing:
    instant = obj.astype(unit)
    if instant != instant:  # NaT
        return typ, None
    if instant.astype(obj.dtype) != obj:  # numpy wraps around on overflow
        raise InvalidInput(f"{obj} is out of range: 64 bits of nanoseconds reach 292 years, from 1677 to 2262")
    return typ, int(instant.view("int64"))
