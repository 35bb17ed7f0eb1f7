"""Functions over errors, and over what is absent."""

from __future__ import annotations

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model import values as v
from shoal.model.values import FALSE, QUIET, TRUE, Value, is_missing, is_quiet, text_error
from shoal.model.zcode import Data


def error(value: Value) -> Value:
    """`error("bad")`: an error that wraps the value."""
    try:
        return v.error(value)
    except InvalidInput as e:
        return text_error(str(e))


def is_error(value: Value) -> Value:
    """Whether the value is an error."""
    return TRUE if v.is_error(value) else FALSE


def has_error(value: Value) -> Value:
    """Whether the value is an error or holds one: `has_error({a:error("x")})` is true."""
    return TRUE if _holds_error(value.type, value.data) else FALSE


def _holds_error(typ: t.Type, data: Data) -> bool:
    match typ.under:
        case t.Error():
            return True
        case _ if data is None:
            return False
        case t.Record() as kind:
            return any(_holds_error(f.type, d) for f, d in zip(kind.fields, data, strict=True))
        case t.Array() | t.Set() as kind:
            return any(_holds_error(kind.elem, d) for d in data)
        case t.Map() as kind:
            return any(_holds_error(kind.key, k) or _holds_error(kind.value, d) for k, d in data)
        case t.Union() as kind:
            return data[1] is not None and _holds_error(kind.types[data[0]], data[1])
        case _:
            return False


def quiet(value: Value) -> Value:
    """`error("quiet")` for what is missing, the value itself for all else."""
    return QUIET if is_missing(value) else value


def has(*values: Value) -> Value:
    """Whether all the values are there; an error that says otherwise than "missing" is passed on."""
    for value in values:
        if v.is_error(value):
            return FALSE if is_missing(value) or is_quiet(value) else value
    return TRUE


def missing(*values: Value) -> Value:
    """Whether one of the values is not there; an error that says otherwise than "missing" is passed on."""
    presence = has(*values)
    if presence.type is not t.BOOL:
        return presence
    return FALSE if presence.data else TRUE
