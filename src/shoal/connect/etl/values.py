"""Parts of results. Elements of one array may be of several types: then each is a member of a union."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.errors import CorruptData
from shoal.model import types as t
from shoal.model.values import Value


def part(value: Value, name: str) -> Value:
    """A field that has to be there."""
    field = value.field(name)
    if field is None:
        raise CorruptData(f"a result of a transform lacks its field {name!r}: {value!r}")
    return field


def elements(value: Value) -> Iterator[Value]:
    """The elements of an array, out of their union; none of a null."""
    array = value.type.under
    if value.data is None or not isinstance(array, t.Array):
        return
    for data in value.data:
        yield _member(array.elem, data)


def _member(typ: t.Type, data: Any) -> Value:
    while isinstance(typ, t.Union) and data is not None:
        tag, data = data
        typ = typ.types[tag]
    return Value(typ, data)
