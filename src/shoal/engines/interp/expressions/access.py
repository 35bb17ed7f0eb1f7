"""Fields, elements and slices. Where a field lies is found once for each type, not once for each value."""

from __future__ import annotations

from typing import Any

from shoal.engines.interp.environment import Cache, Env, Eval
from shoal.model import types as t
from shoal.model.cast import cast_primitive
from shoal.model.values import MISSING, Value, is_error, is_missing, string, structured_error, text_error

SLOW = object()
_UNSEEN = object()


def this(value: Value, env: Env) -> Value:
    """The current value itself."""
    return value


def path(names: tuple[str, ...]) -> Eval:
    """A field of the current value by its path."""
    if not names:
        return this
    offsets: Cache[t.Type, Any] = Cache()

    def get(value: Value, env: Env) -> Value:
        typ = value.type
        offset = offsets.get(typ, _UNSEEN)
        if offset is _UNSEEN:
            offset = offsets.keep(typ, find(typ, names))
        if offset is None:
            return MISSING
        if offset is SLOW:
            return walk(value, names)
        indexes, leaf = offset
        data = value.data
        for i in indexes:
            if data is None:
                break
            data = data[i]
        return Value(leaf, data)

    return get


def find(typ: t.Type, names: tuple[str, ...]) -> Any:
    """Where a path leads in a type: indexes and the type found there; None if nowhere."""
    indexes: list[int] = []
    for name in names:
        under = typ.under
        if not isinstance(under, t.Record):
            return SLOW if isinstance(under, t.Union | t.Map) or under is t.TYPE else None
        if name not in under.index:
            return None
        i = under.index[name]
        indexes.append(i)
        typ = under.fields[i].type
    return tuple(indexes), typ


def walk(value: Value, names: tuple[str, ...]) -> Value:
    """A field by its path, through unions, maps and types."""
    for name in names:
        value = field(value, name)
    return value


def field(value: Value, name: str) -> Value:
    """A field of a record, the value of a key in a map, or the type of a field in a type."""
    value = value.under()
    typ = value.type
    if isinstance(typ, t.Record):
        member = value.field(name)
        return MISSING if member is None else member
    if isinstance(typ, t.Map):
        return in_map(value, string(name))
    if typ is t.TYPE and value.data is not None:
        inner = value.data.under
        if isinstance(inner, t.Record) and name in inner.index:
            return Value(t.TYPE, inner.fields[inner.index[name]].type)
    return MISSING


def dot(expr: Eval, name: str) -> Eval:
    """A field of any value."""
    return lambda this, env: field(expr(this, env), name)


def index(expr: Eval, at: Eval) -> Eval:
    """`e[i]`."""

    def get(this: Value, env: Env) -> Value:
        container, key = expr(this, env), at(this, env)
        typ = container.type.under
        if isinstance(typ, t.Union):
            container = container.under()
            typ = container.type
        match typ:
            case t.Array() | t.Set():
                return in_sequence(typ.elem, container.data, key)
            case t.Record():
                return in_record(Value(typ, container.data), key)
            case t.Map():
                return in_map(Value(typ, container.data), key)
        return MISSING

    return get


def in_sequence(elem: t.Type, data: Any, key: Value) -> Value:
    """An element by its position; negative positions count from the end."""
    under = key.type.under
    if not isinstance(under, t.Primitive) or not is_integer(under):
        return structured_error("array index is not an integer", key)
    position = key.data
    count = len(data or ())
    if position is None or not -count <= position < count:
        return MISSING
    return out_of_union(elem, data[position])


def in_record(record: Value, key: Value) -> Value:
    """A field by its name."""
    if key.type.under is not t.STRING:
        return structured_error("record index is not a string", key)
    member = record.field(key.data or "")
    return MISSING if member is None else member


def in_map(container: Value, key: Value) -> Value:
    """A value by its key, which must be of the map's own key type or of a member of it."""
    typ = container.type.under
    if is_missing(key) or not isinstance(typ, t.Map):
        return MISSING
    data = key.data
    if key.type is not typ.key:
        union = typ.key.under
        if not isinstance(union, t.Union) or key.type not in union.tags:
            return MISSING
        data = (union.tags[key.type], key.data)
    for k, v in container.data or ():
        if k == data and Value(typ.key, k) == Value(typ.key, data):
            return out_of_union(typ.value, v)
    return MISSING


def out_of_union(typ: t.Type, data: Any) -> Value:
    """A value of a union as a value of its member."""
    if isinstance(typ, t.Union) and data is not None:
        tag, inner = data
        return Value(typ.types[tag], inner)
    return Value(typ, data)


def is_integer(typ: t.Primitive) -> bool:
    """Whether a type is one of the integers; times and durations are none."""
    return typ.id <= t.INT64.id


def cut_out(expr: Eval, start: Eval | None, stop: Eval | None) -> Eval:
    """`e[a:b]`."""

    def get(this: Value, env: Env) -> Value:
        subject = expr(this, env)
        if is_error(subject):
            return subject
        if isinstance(subject.type.under, t.Union):
            subject = subject.under()
        under = subject.type.under
        if not (under in (t.STRING, t.BYTES) or isinstance(under, t.Array | t.Set)):
            return structured_error("sliced value is not array, set, bytes, or string", subject)
        if subject.data is None:
            return subject
        length = len(subject.data)
        low = 0 if start is None else position(start(this, env), length)
        high = length if stop is None else position(stop(this, env), length)
        if low is None or high is None:
            return text_error("slice index is not a number")
        return Value(subject.type, subject.data[low:high] if low < high else subject.data[:0])

    return get


def position(value: Value, length: int) -> int | None:
    """A position in something of this length: negative ones count from the end, others are brought into range."""
    at = value.under()
    if at.type is not t.INT64:
        at = cast_primitive(at, t.INT64) if t.is_number(at.type) or at.type is t.STRING else MISSING
        if is_error(at):
            return None
    offset = at.data or 0
    return min(max(offset + length if offset < 0 else offset, 0), length)
