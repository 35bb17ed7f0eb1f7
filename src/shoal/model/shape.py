"""Shaping: cast, crop, fill and order are one walk over two types, done once per pair and then replayed.

First the type of the result is worked out from the types alone, then the steps that lead to it.
Values may still come out otherwise: a cast that fails leaves an error instead, and the record
or array around it takes another type. So a step returns plain data of the type it planned, or a
whole `Value` where the type differs; null is never given to a step, for it stays null in any type.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from typing import NamedTuple

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.cast import cannot_cast, cast_primitive, is_castable
from shoal.model.literals import quote
from shoal.model.text import format_type
from shoal.model.values import Value, is_error, text_error
from shoal.model.zcode import Data, normal_map, normal_set


class Transform(Flag):
    """What shaping may do to a value."""

    CAST = auto()
    """Turn leaves into the target's types."""
    CROP = auto()
    """Drop fields that the target lacks."""
    FILL = auto()
    """Add nulls for fields that only the target has."""
    ORDER = auto()
    """Put fields in the target's order, the ones it lacks behind them by name."""


_CAST, _CROP, _FILL, _ORDER = Transform.CAST, Transform.CROP, Transform.FILL, Transform.ORDER
FIT = _CROP | _FILL
SHAPE = _CAST | _FILL | _ORDER

Step = Callable[[Data], "Data | Value"]


class _Plan(NamedTuple):
    """How values of one type are shaped: the planned type and the step to it, None for a mere copy."""

    type: t.Type
    step: Step | None


_MAX_PLANS = 4096
_PLANS: t.MemoKey[dict[tuple[t.Type, t.Type, Transform], _Plan]] = t.MemoKey("plans")


def shape(value: Value, to: t.Type, transforms: Transform = SHAPE) -> Value:
    """`value` made like `to`. Errors pass, null becomes a null of `to`, and a clash of types is an error value."""
    if is_error(value):
        return value
    source = value.type
    if value.data is None or source.under is to.under:
        return Value(to, value.data)
    if transforms is _CAST and is_castable(to) and not isinstance(source.under, t.Union):
        return cast_primitive(value, to)
    plan = _find_plan(source, to, transforms)
    try:
        data = value.data if plan.step is None else plan.step(value.data)
    except InvalidInput as e:  # an error value made a type too large
        return text_error(str(e))
    return data if isinstance(data, Value) else Value(plan.type, data)


def cast(value: Value, to: t.Type) -> Value:
    """Turn `value`, or the leaves in it that `to` has too, into the types they have there."""
    return shape(value, to, _CAST)


def crop(value: Value, to: t.Type) -> Value:
    """Drop the fields that `to` lacks."""
    return shape(value, to, _CROP)


def fill(value: Value, to: t.Type) -> Value:
    """Add a null for each field of `to` that is missing."""
    return shape(value, to, _FILL)


def fit(value: Value, to: t.Type) -> Value:
    """Crop and fill: the fields of `to` and no others."""
    return shape(value, to, FIT)


def order(value: Value, to: t.Type) -> Value:
    """Put the fields in the order of `to`."""
    return shape(value, to, _ORDER)


def _find_plan(source: t.Type, to: t.Type, transforms: Transform) -> _Plan:
    """The plan for these types. Primitives live for ever, so plans stay with the type that does not."""
    home = source if isinstance(to, t.Primitive) else to
    plans = home.memo.setdefault(_PLANS, {})
    key = (source, to, transforms)
    plan = plans.get(key)
    if plan is None:
        if len(plans) >= _MAX_PLANS:
            plans.clear()
        plan = plans[key] = _make_plan(source, to, transforms)
    return plan


def _make_plan(source: t.Type, to: t.Type, transforms: Transform) -> _Plan:
    try:
        out = _result_type(transforms, source, to)
        return _Plan(out, _step(source, out))
    except InvalidInput as e:
        clash = text_error(str(e))
        return _Plan(to, lambda data: clash)


# ---- the type of the result


def _result_type(transforms: Transform, source: t.Type, to: t.Type) -> t.Type:
    """The type that values of `source` get, as far as it follows from types alone."""
    a, b = source.under, to.under
    casts = _CAST in transforms
    if casts and (a is b or a is t.NULL or _is_cast_whole(transforms, source, to)):
        return to
    if a is b:
        return source
    kept = to if casts else source
    if isinstance(a, t.Record) and isinstance(b, t.Record):
        fields = _result_fields(transforms, a, b)
        return kept if fields == _fields_of(kept) else t.record(fields)
    if isinstance(a, t.Map) and isinstance(b, t.Map) and casts:
        return _map_like(to, _result_type(transforms, a.key, b.key), _result_type(transforms, a.value, b.value))
    if not isinstance(a, (t.Array, t.Set)) or not isinstance(b, (t.Array, t.Set)) or not (casts or type(a) is type(b)):
        return source
    return _sequence_like(kept, _result_type(transforms, a.elem, b.elem), isinstance(b, t.Array))


def _is_cast_whole(transforms: Transform, source: t.Type, to: t.Type) -> bool:
    """Whether a cast leads to `to` itself; a cast that cannot be done at all raises."""
    a, b = source.under, to.under
    if _is_leaf(a) and _is_leaf(b):
        if not is_castable(to):
            raise InvalidInput(f"cast to {format_type(to)} not implemented")
        return True
    if isinstance(a, t.Union):
        for member in a.types:
            _check_member(transforms, member, a, to)
        return True
    return _best_tag(source, b) is not None or (isinstance(b, t.Map) and not isinstance(a, t.Map))


def _check_member(transforms: Transform, member: t.Type, union: t.Union, to: t.Type) -> None:
    try:
        _result_type(transforms, member, to)
    except InvalidInput:
        texts = (quote(format_type(x)) for x in (union, to, member))
        raise InvalidInput("cannot cast union {} to {} due to {}".format(*texts)) from None


def _is_leaf(typ: t.Type) -> bool:
    """Whether shaping sees no parts in it: an enum and an error are leaves, too."""
    return isinstance(typ, (t.Primitive, t.Enum, t.Error))


def _fields_of(typ: t.Type) -> tuple[t.Field, ...]:
    return typ.under.fields if isinstance(typ.under, t.Record) else ()


def _result_fields(transforms: Transform, a: t.Record, b: t.Record) -> tuple[t.Field, ...]:
    """The fields of the result, in the order of `b` if that is asked for, else of `a`."""
    only_a = () if _CROP in transforms else tuple(f for f in a.fields if f.name not in b.index)
    only_b = tuple(f for f in b.fields if f.name not in a.index) if _FILL in transforms else ()
    first, extra = (only_b, sorted(only_a)) if _ORDER in transforms else (only_a, only_b)
    kept = {f.name: f for f in first}
    for f in a.fields:
        if f.name in b.index:
            kept[f.name] = t.Field(f.name, _result_type(transforms, f.type, b.fields[b.index[f.name]].type))
    lead = b if _ORDER in transforms else a
    return (*(kept[f.name] for f in lead.fields if f.name in kept), *extra)


def _sequence_like(kept: t.Type, elem: t.Type, is_array: bool) -> t.Type:
    if elem is t.inner_of(kept):
        return kept
    return t.array(elem) if is_array else t.set_of(elem)


def _map_like(to: t.Type, key: t.Type, value: t.Type) -> t.Type:
    typ = t.map_of(key, value)
    return to if typ is to.under else typ


def _best_tag(source: t.Type, union: t.Type) -> int | None:
    """Where a union takes values of `source`: as they are, without their name, or under another."""
    if not isinstance(union, t.Union):
        return None
    for typ in (source, source.under):
        if typ in union.tags:
            return union.tags[typ]
    return next((i for i, member in enumerate(union.types) if member.under is source.under), None)


# ---- the steps


def _step(source: t.Type, to: t.Type) -> Step | None:
    """The step from one type to another; None where the data may stay as it is."""
    a, b = source.under, to.under
    if a is b or a is t.NULL:
        return None
    match a, b:
        case t.Record(), t.Record():
            return _record_step(a, b)
        case ((t.Array() | t.Set()), (t.Array() | t.Set())):
            return _sequence_step(a, b)
        case t.Map(), t.Map():
            return _map_step(a, b)
        case _ if _is_leaf(a) and is_castable(to):
            return _leaf_step(source, to)
        case t.Union(), _ if (step := _from_union_step(a, to)) is not None:
            return step
        case _, t.Map() if not isinstance(a, t.Union):
            return lambda data: cannot_cast(Value(source, data), to)
    tag = _best_tag(source, b)
    if tag is None:
        raise InvalidInput(f"createStep: incompatible types {format_type(source)} and {format_type(to)}")
    return lambda data: (tag, data)


def _leaf_step(source: t.Type, to: t.Type) -> Step:
    def step(data: Data) -> Data | Value:
        result = cast_primitive(Value(source, data), to)
        return result.data if result.type is to else result

    return step


def _from_union_step(union: t.Union, to: t.Type) -> Step | None:
    """Each member its own way; None if one of them has none."""
    try:
        steps = [_step(member, to) for member in union.types]
    except InvalidInput:
        return None

    def step(data: Data) -> Data | Value:
        tag, inner = data
        way = steps[tag]
        return inner if inner is None or way is None else way(inner)

    return step


def _record_step(a: t.Record, b: t.Record) -> Step:
    parts = [
        (i, _step(a.fields[i].type, f.type) if i >= 0 else None) for f in b.fields for i in (a.index.get(f.name, -1),)
    ]

    def step(data: Data) -> Data | Value:
        row = (*data, None)  # a field that the source lacks has index -1
        items = [d if (d := row[i]) is None or way is None else way(d) for i, way in parts]
        return _retyped(b, items) if Value in map(type, items) else tuple(items)

    return step


def _retyped(planned: t.Record, items: list[Data | Value]) -> Data | Value:
    """A record some of whose fields came out with types of their own."""
    kinds = [_type_of(item, f.type) for f, item in zip(planned.fields, items, strict=True)]
    typ = t.record(zip(planned.index, kinds, strict=True))
    data = tuple(item.data if isinstance(item, Value) else item for item in items)
    return data if typ is planned else Value(typ, data)


def _type_of(item: Data | Value, planned: t.Type) -> t.Type:
    """The type an item came out with; the planned one if only names differ."""
    return item.type if isinstance(item, Value) and item.type.under is not planned.under else planned


def _sequence_step(a: t.Array | t.Set, b: t.Array | t.Set) -> Step:
    way = _step(a.elem, b.elem)
    is_array = isinstance(b, t.Array)

    def step(data: Data) -> Data | Value:
        elem, items = _settle(b.elem, _walk(way, data))
        elements = tuple(items) if is_array else normal_set(elem, items)
        return elements if elem is b.elem else Value(t.array(elem) if is_array else t.set_of(elem), elements)

    return step


def _map_step(a: t.Map, b: t.Map) -> Step:
    key_way, value_way = _step(a.key, b.key), _step(a.value, b.value)

    def step(data: Data) -> Data | Value:
        key, keys = _settle(b.key, _walk(key_way, [k for k, _ in data]))
        value, values = _settle(b.value, _walk(value_way, [v for _, v in data]))
        entries = normal_map(key, zip(keys, values, strict=True))
        return entries if key is b.key and value is b.value else Value(t.map_of(key, value), entries)

    return step


def _walk(way: Step | None, data: Data) -> list[Data | Value]:
    return list(data) if way is None else [None if d is None else way(d) for d in data]


def _settle(planned: t.Type, items: list[Data | Value]) -> tuple[t.Type, list[Data]]:
    """One type for all the items and their data in it: the planned one, or a union if they differ."""
    if Value not in map(type, items):
        return planned, items
    kinds = [_type_of(item, planned) for item in items]
    data = [item.data if isinstance(item, Value) else item for item in items]
    if len(set(kinds)) == 1:
        return kinds[0], data
    union = t.union(kinds)
    tagged = [None if d is None else (union.tags[kind], d) for kind, d in zip(kinds, data, strict=True)]
    return (planned if union is planned.under else union), tagged
