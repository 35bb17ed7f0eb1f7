"""What `over` makes of a value: its elements, its entries, its fields, or itself."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.engines.interp.environment import Env, Eval
from shoal.model import types as t
from shoal.model.values import Value, is_missing

_KEY = t.array(t.STRING)


def unroll(exprs: tuple[Eval, ...], this: Value, env: Env) -> Iterator[Value]:
    """What is inside the values of the expressions, one after the other; missing ones are skipped."""
    for expr in exprs:
        value = expr(this, env)
        if not is_missing(value):
            yield from inside(value)


def inside(value: Value) -> Iterator[Value]:
    """The parts of one value."""
    value = value.under()
    typ, data = value.type, value.data
    match typ:
        case t.Array() | t.Set():
            for item in data or ():
                yield Value(typ.elem, item).under()
        case t.Map():
            entry = t.record((("key", typ.key), ("value", typ.value)))
            for pair in data or ():
                yield Value(entry, pair)
        case t.Record():
            for f, item in zip(typ.fields, data or (), strict=data is not None):
                yield Value(t.record((("key", _KEY), ("value", f.type))), ((f.name,), item))
        case _:
            yield value
