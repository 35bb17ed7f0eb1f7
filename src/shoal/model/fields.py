"""Fields of metadata records: built by name, read by name. Unknown fields are left alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.errors import CorruptData
from shoal.ids import SIZE, Id, to_text
from shoal.model import types as t
from shoal.model.values import NULL, Value, record

_ID_NAME = "ksuid.KSUID"
KSUID = t.named(_ID_NAME, t.BYTES)
NO_ID = Id(bytes(SIZE))
"""Stands where there is no commit, as the parent of the first one."""


def id_value(ident: Id) -> Value:
    """An id."""
    return Value(KSUID, ident)


def is_id(typ: t.Type) -> bool:
    """Whether values of a type are ids, which people read as letters and digits."""
    return isinstance(typ, t.Named) and typ.name == _ID_NAME and typ.under is t.BYTES


def id_text(data: bytes) -> str:
    """The text of an id; what is not one, such as the zeros that stand for no commit, is shown as bytes."""
    return to_text(data) if len(data) == SIZE and any(data) else "0x" + data.hex()


def uint64(n: int) -> Value:
    """A count."""
    return Value(t.UINT64, n)


def time_value(ns: int) -> Value:
    """A time in nanoseconds since 1970."""
    return Value(t.TIME, ns)


def id_list(idents: Iterable[Id]) -> Value:
    """Ids in their order."""
    return Value(t.array(KSUID), tuple(idents))


def named(name: str, *fields: tuple[str, Value]) -> Value:
    """A record of a named type."""
    value = record(fields)
    return Value(t.named(name, value.type), value.data)


def name_of(value: Value) -> str:
    """The name of a record's type; "" if it has none."""
    return value.type.name if isinstance(value.type, t.Named) else ""


def get(value: Value, name: str, where: str) -> Value:
    """A field that has to be there."""
    field = value.field(name)
    if field is None:
        raise CorruptData(f"{where}: a record lacks its field {name!r}")
    return field


def get_data(value: Value, name: str, where: str) -> Any:
    """The plain data of a field that has to be there and not to be null."""
    data = get(value, name, where).data
    if data is None:
        raise CorruptData(f"{where}: the field {name!r} of a record is null")
    return data


def get_id(value: Value, name: str, where: str) -> Id:
    """A field that is an id."""
    field = get(value, name, where)
    if field.type.under is not t.BYTES or len(field.data or b"") != SIZE:
        raise CorruptData(f"{where}: the field {name!r} of a record is not an id")
    return Id(field.data)


def get_or(value: Value, name: str, default: Any) -> Any:
    """The plain data of a field; the default if it is not there or null."""
    field = value.field(name)
    return default if field is None or field.data is None else field.data


def optional_id(ident: Id | None) -> Value:
    """An id or a null."""
    return Value(KSUID, ident)


def optional(value: Value | None) -> Value:
    """The value or a null."""
    return NULL if value is None else value
