"""Zed values as plain Python objects and back: `from_python(to_python(value)) == value` for every value.

    null, bool, int64, float64, string, bytes   None, bool, int, float, str, bytes
    time, duration    numpy.datetime64, numpy.timedelta64, of nanoseconds
    ip, net           objects of `ipaddress`; a net with bits beyond its mask is an interface
    type              the type
    record, array     dict, list
    set, map          frozenset, dict; a list where Python finds elements equal or cannot hash them
    error             Error
    other ints and floats, enums, named types   int, float, str, ... that remember their type
    nulls of a type, unions, what is left       the Value itself

Inside a record, array, set or map all nulls are None and all ints are int: the whole remembers the
types of its parts. If it was changed and does not fit any more, its type is found anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shoal.errors import InvalidInput
from shoal.frames.python_scalars import NATURAL, SCALARS, numpy_scalar, scalar_object, text
from shoal.model import types as t
from shoal.model import values
from shoal.model.literals import round_float
from shoal.model.node import frozen
from shoal.model.values import NULL, Value
from shoal.model.zcode import Data, normal_map, normal_set


@frozen
class Error:
    """A Zed error and what it wraps, as in `Error("missing")`."""

    inner: Any

    def __repr__(self) -> str:
        return f"Error({self.inner!r})"


class Typed:
    """A Python object that remembers its Zed type, since its class does not tell it."""

    zed_type: t.Type


class TypedInt(Typed, int):
    """An int that is no int64."""


class TypedFloat(Typed, float):
    """A float that is no float64."""


class TypedStr(Typed, str):
    """The symbol of an enum, or a string with a type name."""


class TypedBytes(Typed, bytes):
    """Bytes with a type name."""


class TypedDict(Typed, dict[Any, Any]):
    """A record or a map."""


class TypedList(Typed, list[Any]):
    """An array, or what Python cannot hold as a set or a dict."""


class TypedSet(Typed, frozenset[Any]):
    """A set."""


_TYPED: dict[type, Callable[[Any], Any]] = {
    int: TypedInt, float: TypedFloat, str: TypedStr, bytes: TypedBytes,
    dict: TypedDict, list: TypedList, frozenset: TypedSet,
}  # fmt: skip


# ---- to Python


def to_python(value: Value) -> Any:
    """The Python object that means the same."""
    typ, data = value.type, value.data
    if data is None:
        return None if typ is t.NULL else value
    if isinstance(typ.under, t.Union):
        return value
    plain = _plain(typ, data)
    if typ in NATURAL or isinstance(typ, t.Error):
        return plain
    return remember(plain, typ) if type(plain) in _TYPED else value


def remember(plain: Any, typ: t.Type) -> Any:
    """The same object, with a type to remember."""
    made = _TYPED[type(plain)](plain)
    made.zed_type = typ
    return made


def to_cell(value: Value | None) -> Any:
    """A value in a column, whose other values tell the type of nulls and unions."""
    if value is None or value.data is None:
        return None
    if isinstance(value.type, t.Union):
        tag, data = value.data
        return to_python(Value(value.type.types[tag], data))
    return to_python(value)


def _plain(typ: t.Type, data: Data) -> Any:
    """An object from which `fit` makes the data again, given the type."""
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
    """Items as a set or dict, if Python tells them all apart: it takes 1 and true for the same."""
    try:
        made = collect(items)
    except TypeError:
        return items
    return made if len(made) == len(items) else items


# ---- from Python, the type being known


class Misfit(InvalidInput):
    """An object is not of the type it was taken for."""


def fit(typ: t.Type, obj: Any) -> Data:
    """The data of an object as a value of this type; raises Misfit."""
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
        case t.Union() if (found := from_python(obj)).type in typ.tags:
            return None if found.type is t.NULL else (typ.tags[found.type], found.data)
        case t.Enum() if isinstance(obj, str) and obj in typ.symbols:
            return typ.symbols.index(obj)
        case t.Error() if isinstance(obj, Error):
            return fit(typ.inner, obj.inner)
        case _:
            raise Misfit(f"not of the type it was: {obj!r}")


def _entries(obj: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(obj, dict):
        return obj.items()
    if all(isinstance(entry, tuple) and len(entry) == 2 for entry in obj):
        return obj  # type: ignore[no-any-return]
    raise Misfit("not the entries of a map")


def _fit_primitive(typ: t.Primitive, obj: Any) -> Data:
    found = _infer(obj, 0)
    if found.type is typ or found.data is None:
        return found.data
    if typ in t.UNSIGNED | t.SIGNED and found.type in (t.INT64, t.UINT64):
        low, high = t.INT_RANGES[typ]
        if low <= found.data <= high:
            return found.data
    if typ in t.FLOATS and found.type is t.FLOAT64:
        return round_float(found.data, 2 if typ is t.FLOAT16 else 4)
    raise Misfit(f"not of type {typ.name}: {obj!r}")


# ---- from Python, the type being found


def from_python(obj: Any) -> Value:
    """The Zed value of a Python object: of the type it remembers, or that its class tells."""
    return _from(obj, 0)


def _from(obj: Any, depth: int) -> Value:
    if isinstance(obj, Typed):
        try:
            return Value(obj.zed_type, fit(obj.zed_type, obj))
        except Misfit:
            pass
    return _infer(obj, depth)


def column_type(cells: Iterable[Any]) -> t.Type:
    """The type of a column: that of its cells if they agree, else the union of theirs. None is of any type."""
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
    if type(obj).__name__ == "NAType":  # what is missing in pandas
        return NULL
    raise InvalidInput(f"no Zed value for a Python object of type {type(obj).__name__} (make it a str, a dict, ...)")


def _all(items: Iterable[Any], depth: int) -> Iterator[Value]:
    return (_from(item, depth) for item in items)


def _dict(obj: dict[Any, Any], depth: int) -> Value:
    """A record; a map if not all keys are strings."""
    found = list(_all(obj.values(), depth))
    if not all(isinstance(key, str) for key in obj):
        return values.map_of(zip(_all(obj, depth), found, strict=True))
    names = tuple(key if type(key) is str and key.isascii() else text(key) for key in obj)
    return Value(t.record_of(names, tuple(v.type for v in found)), tuple(v.data for v in found))


_CONTAINERS: dict[type, Callable[[Any, int], Value]] = {
    dict: _dict,
    list: lambda obj, depth: values.array(_all(obj, depth)),
    tuple: lambda obj, depth: values.array(_all(obj, depth)),
    set: lambda obj, depth: values.set_of(_all(obj, depth)),
    frozenset: lambda obj, depth: values.set_of(_all(obj, depth)),
    Error: lambda obj, depth: values.error(_from(obj.inner, depth)),
}
