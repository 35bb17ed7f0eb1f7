"""Python objects without parts, and the Zed types they stand for.

numpy is loaded with the first time or duration that leaves; no other library is.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from types import NoneType
from typing import Any
from uuid import UUID

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.literals import make_net
from shoal.model.values import Value
from shoal.model.zcode import Data

Typing = tuple[t.Type, Data]
NATURAL = frozenset((t.BOOL, t.INT64, t.FLOAT64, t.STRING, t.BYTES, t.TIME, t.DURATION, t.IP, t.NET, t.TYPE))
"""The types that the class of a Python object tells by itself."""

_NOT_A_TIME = -(2**63)
"""What numpy takes for no time at all. In Zed it is a time like any other."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = t.named("arrow_date32", t.TIME)
"""A day, as it also comes from Arrow and Parquet."""


# ---- to Python


def scalar_object(typ: t.Type, data: Data) -> Any:
    """The Python object of a primitive value; a Value where Python has none."""
    return _OBJECTS[typ](data) if typ in _OBJECTS else data


def _numpy_time(typ: t.Type, name: str) -> Callable[[int], Any]:
    def make(nanoseconds: int) -> Any:
        import numpy  # noqa: PLC0415 - most results hold no time, and start without it

        return Value(typ, nanoseconds) if nanoseconds == _NOT_A_TIME else getattr(numpy, name)(nanoseconds, "ns")

    return make


def _ip_object(data: bytes) -> IPv4Address | IPv6Address:
    return IPv4Address(data) if len(data) == 4 else IPv6Address(data)


def _net_object(data: bytes) -> Any:
    half = len(data) // 2
    bits = int.from_bytes(data[half:], "big").bit_count()
    found: Any = (IPv4Interface if half == 4 else IPv6Interface)((data[:half], bits))
    return found.network if found.network.network_address == found.ip else found


_OBJECTS: dict[t.Type, Callable[[Data], Any]] = {
    t.TIME: _numpy_time(t.TIME, "datetime64"),
    t.DURATION: _numpy_time(t.DURATION, "timedelta64"),
    t.IP: _ip_object,
    t.NET: _net_object,
}


# ---- from Python


def _int(obj: int) -> Typing:
    if not -(2**63) <= obj < 2**64:
        raise InvalidInput("an int beyond 64 bits (make it a float or a str)")
    return (t.INT64 if obj < 2**63 else t.UINT64), int(obj)


def text(obj: str) -> str:
    """A text that can be written."""
    try:
        obj.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{obj!r} is no text: it holds half of a surrogate pair") from None
    return str.__str__(obj)


def _time(obj: Any) -> Typing:
    """An instant; one without a zone is taken for UTC."""
    if hasattr(obj, "to_datetime64"):  # of pandas: it has nanoseconds, or is no time at all
        return numpy_scalar(obj.to_datetime64())
    aware = obj if obj.tzinfo is not None else obj.replace(tzinfo=UTC)
    return t.TIME, _nanoseconds((aware - _EPOCH) // timedelta(microseconds=1) * 1000, obj)


def _duration(obj: Any) -> Typing:
    if hasattr(obj, "to_timedelta64"):
        return numpy_scalar(obj.to_timedelta64())
    return t.DURATION, _nanoseconds(obj // timedelta(microseconds=1) * 1000, obj)


def _day(obj: date) -> Typing:
    return _DATE, _nanoseconds((obj.toordinal() - _EPOCH.toordinal()) * 86_400 * 10**9, obj)


def _nanoseconds(made: int, obj: object) -> int:
    if not -(2**63) <= made < 2**63:
        raise InvalidInput(f"{obj} is out of range: 64 bits of nanoseconds reach 292 years, from 1677 to 2262")
    return made


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
    IPv4Interface: _interface,
    IPv6Interface: _interface,
    IPv4Address: _ip,
    IPv6Address: _ip,
    IPv4Network: _net,
    IPv6Network: _net,
    t.Type: lambda obj: (t.TYPE, obj),
    Value: lambda obj: (obj.type, obj.data),
}
"""What objects of a class, or of one derived from it, are in Zed."""


def numpy_scalar(obj: Any) -> Typing:
    """A number, bool, time or duration of numpy."""
    kind = obj.dtype.kind
    if kind in "mM":
        return _numpy_instant(obj, *((t.TIME, "datetime64[ns]") if kind == "M" else (t.DURATION, "timedelta64[ns]")))
    found = t.PRIMITIVES.get(obj.dtype.name)
    if found is None:
        raise InvalidInput(f"no Zed value for {obj.dtype.name} of numpy (make it a float64, an int64, ...)")
    return found, obj.item()


def _numpy_instant(obj: Any, typ: t.Type, unit: str) -> Typing:
    made = obj.astype(unit)
    if made != made:  # it is no time
        return typ, None
    if made.astype(obj.dtype) != obj:  # numpy wraps around
        raise InvalidInput(f"{obj} is out of range: 64 bits of nanoseconds reach 292 years, from 1677 to 2262")
    return typ, int(made.view("int64"))
