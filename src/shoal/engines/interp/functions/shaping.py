"""The shaping family: each takes a value and the type to make it like."""

from __future__ import annotations

from collections.abc import Callable

from shoal.engines.interp.functions.failures import BAD_TYPE_VALUE, failure
from shoal.model import shape as shapes
from shoal.model import types as t
from shoal.model.cast import cast_named
from shoal.model.values import Value

_NOT_A_TYPE = "shaper type argument is not a type"


def cast(value: Value, to: Value) -> Value:
    """`cast("1", <int64>)` is 1; with a string, the value's type gets that name: `cast(1, "port")` is `1(=port)`."""
    if to.type.under is t.STRING:
        return cast_named(value, to.data or "")
    return _shaped(shapes.cast, value, to)


def crop(value: Value, to: Value) -> Value:
    """`crop({a:1,b:2}, <{a:int64}>)` is `{a:1}`."""
    return _shaped(shapes.crop, value, to)


def fill(value: Value, to: Value) -> Value:
    """`fill({a:1}, <{a:int64,b:string}>)` is `{a:1,b:null(string)}`."""
    return _shaped(shapes.fill, value, to)


def fit(value: Value, to: Value) -> Value:
    """Crop and fill: `fit({a:1,b:2}, <{a:int64,c:ip}>)` is `{a:1,c:null(ip)}`."""
    return _shaped(shapes.fit, value, to)


def order(value: Value, to: Value) -> Value:
    """`order({b:1,a:2}, <{a:int64}>)` is `{a:2,b:1}`."""
    return _shaped(shapes.order, value, to)


def shape(value: Value, to: Value) -> Value:
    """Cast, fill and order: `shape({b:"1"}, <{a:ip,b:int64}>)` is `{a:null(ip),b:1}`."""
    return _shaped(shapes.shape, value, to)


def _shaped(rule: Callable[[Value, t.Type], Value], value: Value, to: Value) -> Value:
    if to.type.under is not t.TYPE:
        return failure(_NOT_A_TYPE, to)
    return BAD_TYPE_VALUE if to.data is None else rule(value, to.data)
