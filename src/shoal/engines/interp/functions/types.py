"""Functions about types, casts and shapes, and those that take values of any type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from shoal.engines.interp.functions.arguments import BAD_TYPE_VALUE, failure
from shoal.errors import InvalidInput
from shoal.model import shape as shapes
from shoal.model import types as t
from shoal.model.cast import cast_named
from shoal.model.extent import CONTAINER_BYTES, LEAF_BYTES, MAX_BYTES, check_size, size_of
from shoal.model.order import compare_values
from shoal.model.parse import ParseError, Parser, parse_type
from shoal.model.values import FALSE, MISSING, NULL, TRUE, Value, int64, is_missing, is_quiet, string

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


_SHAPING = 8
"""Shaping is refused if the bound on its result is this many times the limit: most results are far below the bound."""
_PARSING = 8
"""Bytes of a value that a character of ZSON may take."""
_NOT_A_TYPE = "shaper type argument is not a type"


def cast(value: Value, to: Value, *, limit: int = MAX_BYTES) -> Value:
    """`cast("1", <int64>)` is 1; with a string, the value's type gets that name: `cast(1, "port")` is `1(=port)`."""
    if to.type.under is t.STRING:
        return cast_named(value, to.data or "")
    return _shaped(shapes.cast, value, to, limit)


def crop(value: Value, to: Value) -> Value:
    """`crop({a:1,b:2}, <{a:int64}>)` is `{a:1}`."""
    return _shaped(shapes.crop, value, to)


def fill(value: Value, to: Value, *, limit: int = MAX_BYTES) -> Value:
    """`fill({a:1}, <{a:int64,b:string}>)` is `{a:1,b:null(string)}`."""
    return _shaped(shapes.fill, value, to, limit)


def fit(value: Value, to: Value, *, limit: int = MAX_BYTES) -> Value:
    """Crop and fill: `fit({a:1,b:2}, <{a:int64,c:ip}>)` is `{a:1,c:null(ip)}`."""
    return _shaped(shapes.fit, value, to, limit)


def order(value: Value, to: Value) -> Value:
    """`order({b:1,a:2}, <{a:int64}>)` is `{a:2,b:1}`."""
    return _shaped(shapes.order, value, to)


def shape(value: Value, to: Value, *, limit: int = MAX_BYTES) -> Value:
    """Cast, fill and order: `shape({b:"1"}, <{a:ip,b:int64}>)` is `{a:null(ip),b:1}`."""
    return _shaped(shapes.shape, value, to, limit)


def _shaped(rule: Callable[[Value, t.Type], Value], value: Value, to: Value, limit: int = MAX_BYTES) -> Value:
    if to.type.under is not t.TYPE:
        return failure(_NOT_A_TYPE, to)
    if value.type.depth > 1 and to.data is not None:
        # Each record of the value may get all fields of the type.
        check_size(size_of(value) // CONTAINER_BYTES * to.data.size * LEAF_BYTES, _SHAPING * limit)
    return BAD_TYPE_VALUE if to.data is None else rule(value, to.data)


def parse_zson(text: Value, *, limit: int = MAX_BYTES) -> Value:
    """The value a text spells: `parse_zson("{a:1}")` is `{a:1}`. What follows the first value does not count."""
    if text.type.under is not t.STRING:
        return failure("parse_zson: string arg required", text)
    if text.data is None:
        return NULL
    check_size(_PARSING * len(text.data), limit)
    parser = Parser(text.data)
    try:
        parser.skip()
        start = parser.pos
        return parser.value() or NULL
    except ParseError as e:
        message = "ZSON syntax error" if e.position == start else str(e)
        return failure(f"parse_zson: {message}", text)
    except (InvalidInput, ValueError) as e:
        return failure(f"parse_zson: {e}", text)


_SIZED = frozenset((t.BYTES, t.IP, t.NET))


def coalesce(*values: Value) -> Value:
    """The first value that is neither null nor missing nor quiet; null if there is none."""
    for value in values:
        under = value.under()
        if under.data is not None and not is_missing(under) and not is_quiet(under):
            return value
    return NULL


def compare(a: Value, b: Value, nulls_max: Value | None = None) -> Value:
    """-1, 0 or 1 over values of any types: `compare(1, "a")` is -1."""
    if nulls_max is None:
        return int64(compare_values(a, b))
    if nulls_max.type.under is not t.BOOL:
        return failure("compare: nullsMax arg is not bool", nulls_max)
    return int64(compare_values(a, b, bool(nulls_max.data)))


def length(value: Value) -> Value:
    """How many fields, elements or bytes: `len([1,2,3])` is 3, `len("é")` is 2, `len(null)` is 0."""
    value = value.under()
    typ, data = value.type, value.data
    if isinstance(typ, t.Error):
        return failure("len()", value)
    if isinstance(typ, t.Record):
        return int64(len(typ.fields))
    if typ is t.TYPE:
        return BAD_TYPE_VALUE if data is None else int64(_type_length(data))
    if typ is t.STRING:
        return int64(len((data or "").encode()))
    if typ is t.NULL or typ in _SIZED or isinstance(typ, (t.Array, t.Set, t.Map)):
        return int64(len(data or ()))
    return failure("len: bad type", value)


def _type_length(typ: t.Type) -> int:
    """The fields of a record type, the members of a union, the symbols of an enum, of whatever is inside."""
    match typ.under:
        case t.Record() as kind:
            return len(kind.fields)
        case t.Union() as kind:
            return len(kind.types)
        case t.Enum() as kind:
            return len(kind.symbols)
        case t.Primitive():
            return 1
        case under:
            return _type_length(under.children()[-1])
