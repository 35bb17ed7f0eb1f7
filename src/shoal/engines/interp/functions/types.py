"""Functions over types and their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from shoal.engines.interp.functions.failures import BAD_TYPE_VALUE, failure
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.parse import parse_type
from shoal.model.values import FALSE, MISSING, TRUE, Value, string

Names: TypeAlias = Mapping[str, t.Type]
"""The named types that a query has met in its data, by name."""
_NO_NAMES: Names = {}


def typeof(value: Value) -> Value:
    """`typeof(1)` is `<int64>`."""
    return Value(t.TYPE, value.type)


def typeunder(value: Value) -> Value:
    """The type below any names: `typeunder(80(port=uint16))` is `<uint16>`."""
    return Value(t.TYPE, value.type.under)


def under(value: Value) -> Value:
    """The value out of its name, its error or its union, one of them; a type value without its name."""
    match value.type:
        case t.Named() | t.Error() as typ:
            return Value(typ.inner, value.data)
        case t.Union() as typ if value.data is not None:
            return Value(typ.types[value.data[0]], value.data[1])
        case t.TYPE:
            return BAD_TYPE_VALUE if value.data is None else Value(t.TYPE, value.data.under)
        case _:
            return value


def nameof(value: Value) -> Value:
    """The name of the value's type, or of the type that it is: `nameof(80(port=uint16))` is `"port"`."""
    typ = value.data if value.type is t.TYPE else value.type
    return string(typ.name) if isinstance(typ, t.Named) else MISSING


def kind(value: Value) -> Value:
    """The kind of the value's type, or of the type that it is: `"primitive"`, `"record"`, ..."""
    is_type = value.type.under is t.TYPE and value.data is not None
    typ: t.Type = value.data if is_type else value.type
    return string(typ.under.kind)


def is_type(value: Value, typ: Value, *, names: Names = _NO_NAMES) -> Value:
    """Whether the value has this very type, given as a type or as its text: `is(1, <int64>)`."""
    target: t.Type | None = None
    if typ.type.under is t.TYPE:
        target = typ.data
    elif typ.type.under is t.STRING:
        target = _parsed(typ.data or "", names)
    return TRUE if target is value.type else FALSE


def typename(name: Value, typ: Value | None = None, *, names: Names = _NO_NAMES) -> Value:
    """The type of this name among those the data has: `typename("port")`. A second argument is just checked."""
    if name.type.under is not t.STRING:
        return failure("typename: first argument not a string", name)
    if typ is None:
        bound = names.get(name.data or "")
        return MISSING if bound is None else Value(t.TYPE, bound)
    if typ.type.under is not t.TYPE:
        return failure("typename: second argument not a type value", typ)
    return BAD_TYPE_VALUE if typ.data is None else Value(t.TYPE, typ.data)


def _parsed(text: str, names: Names) -> t.Type | None:
    """The type in a text; None if it is none. A bare name is one of those the data has."""
    try:
        return parse_type(text)
    except (InvalidInput, ValueError):
        return names.get(text)
