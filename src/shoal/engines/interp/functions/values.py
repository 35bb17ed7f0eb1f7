"""Functions over values of any kind."""

from __future__ import annotations

from shoal.engines.interp.functions.failures import BAD_TYPE_VALUE, failure
from shoal.model import types as t
from shoal.model.order import compare_values
from shoal.model.values import NULL, Value, int64, is_missing, is_quiet

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
