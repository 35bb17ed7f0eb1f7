"""Records, arrays, sets and maps from expressions."""

from __future__ import annotations

from shoal.engines.interp.environment import Cache, Env, Eval
from shoal.model import types as t
from shoal.model import values
from shoal.model.extent import MAX_PARTS, check_parts
from shoal.model.values import Value

Elem = tuple[Eval, bool]
"""An expression, and whether it is spread."""


def record(names: tuple[str, ...], exprs: tuple[Eval, ...]) -> Eval:
    """A record of named expressions."""
    types: Cache[tuple[t.Type, ...], t.Record] = Cache()

    def build(this: Value, env: Env) -> Value:
        members = [expr(this, env) for expr in exprs]
        kinds = tuple([value.type for value in members])
        typ = types.get(kinds)
        if typ is None:
            typ = types.keep(kinds, t.record(zip(names, kinds, strict=True)))
        return Value(typ, tuple([value.data for value in members]))

    return build


def record_with_spread(elems: tuple[tuple[str, Eval], ...]) -> Eval:
    """A record into which others are spread (elements without a name); a later field replaces an earlier one."""

    def build(this: Value, env: Env) -> Value:
        fields: dict[str, Value] = {}
        for name, expr in elems:
            value = expr(this, env)
            if name:
                fields[name] = value
                continue
            typ = value.type.under
            if isinstance(typ, t.Record):
                for i, f in enumerate(typ.fields):
                    fields[f.name] = Value(f.type, None if value.data is None else value.data[i])
        return values.record(fields.items())

    return build


def elements(elems: tuple[Elem, ...], this: Value, env: Env) -> list[Value]:
    """The elements of an array or set; what cannot be spread vanishes."""
    out: list[Value] = []
    for expr, is_spread in elems:
        value = expr(this, env)
        if not is_spread:
            out.append(value)
            continue
        inner = t.inner_of(value.type)
        if inner is not None:
            out.extend([Value(inner, data) for data in value.data or ()])
    return out


def array(elems: tuple[Elem, ...]) -> Eval:
    """An array."""
    return lambda this, env: bounded(values.array(elements(elems, this, env)))


def set_of(elems: tuple[Elem, ...]) -> Eval:
    """A set."""
    return lambda this, env: bounded(values.set_of(elements(elems, this, env)))


def map_of(entries: tuple[tuple[Eval, Eval], ...]) -> Eval:
    """A map."""
    return lambda this, env: bounded(values.map_of([(key(this, env), value(this, env)) for key, value in entries]))


def bounded(value: Value) -> Value:
    """A container; TooLarge for one that could never be written out."""
    if value.type.depth > 2 or len(value.data) > MAX_PARTS:
        check_parts(value.type, value.data)
    return value
