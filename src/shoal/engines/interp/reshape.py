"""The cores of `fuse`, `shape`, `explode` and `over`, and a walk through all parts of a value.

The first two read all values before the first comes out. What they learn is small, so it is kept apart
from the values: observe them all, keep them anywhere, then convert each.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.engines.interp.environment import Env, Eval
from shoal.model import types as t
from shoal.model.fusion import Fusion, Move, mover
from shoal.model.values import Value, is_error, is_missing
from shoal.model.zcode import Data


class FuseState:
    """Learns the types of values and then converts the values to the type they fuse to."""

    __slots__ = ("_fusion", "_moves")

    def __init__(self) -> None:
        self._fusion = Fusion()
        self._moves: dict[t.Type, Move] = {}

    @property
    def type(self) -> t.Type | None:
        """The fused type of the values observed so far."""
        return self._fusion.type

    def observe(self, value: Value) -> None:
        """Learn from a value; all come before the first is converted."""
        self._fusion.mix(value.type)

    def convert(self, value: Value) -> Value:
        """An observed value in the fused type. An error passes as it is."""
        if is_error(value):
            return value
        to = self._fusion.type
        assert to is not None, "a value must be observed before it is converted"
        move = self._moves.get(value.type)
        if move is None:
            move = self._moves[value.type] = mover(value.type, to)
        return Value(to, move(value.data))


class ShapeState:
    """Learns which records differ only where one has nulls without a type, and converts them to one type.

    A float64 column of whole numbers becomes int64, or uint64 if they fit only there, and a column of
    nulls without a type becomes int64, too. Anything but a record passes as it is.
    """

    __slots__ = ("_alike", "_by_names", "_goals")

    def __init__(self) -> None:
        self._by_names: dict[tuple[str, ...], list[_Alike]] = {}
        self._alike: dict[t.Type, _Alike] = {}
        self._goals: dict[t.Type, t.Record] = {}

    def observe(self, value: Value) -> None:
        """Learn from a value; all come before the first is converted."""
        typ = value.type.under
        if not isinstance(typ, t.Record):
            return
        alike = self._alike.get(typ)
        if alike is None:
            alike = self._alike[typ] = self._find(typ)
        if value.data is not None:
            alike.check(value.data)

    def _find(self, typ: t.Record) -> _Alike:
        """The latest kind that records of this type can join, or a new one."""
        shapes = self._by_names.setdefault(tuple(typ.index), [])
        kinds = typ.children()
        for alike in reversed(shapes):
            if alike.join(kinds):
                return alike
        shapes.append(_Alike(kinds))
        return shapes[-1]

    def convert(self, value: Value) -> Value:
        """An observed value in the type of its kind."""
        typ = value.type.under
        if not isinstance(typ, t.Record):
            return value
        goal = self._goals.get(typ)
        if goal is None:
            goal = self._goals[typ] = t.record(zip(typ.index, self._alike[typ].goals(), strict=True))
        if value.data is None or goal is typ:
            return Value(goal, value.data)
        return Value(goal, tuple(map(_whole, value.data, goal.children())))


_INT64_END, _UINT64_END = float(2**63), float(2**64)


class _Alike:
    """Records of the same field names whose types agree wherever both have one."""

    __slots__ = ("_kinds", "_signed", "_unsigned")

    def __init__(self, kinds: tuple[t.Type, ...]) -> None:
        self._kinds = list(kinds)
        self._signed = [True] * len(kinds)
        self._unsigned = [True] * len(kinds)

    def join(self, kinds: tuple[t.Type, ...]) -> bool:
        """Take in records of these field types, if they agree."""
        if not all(a is b or t.NULL in (a.under, b.under) for a, b in zip(self._kinds, kinds, strict=True)):
            return False
        self._kinds = [b if a.under is t.NULL else a for a, b in zip(self._kinds, kinds, strict=True)]
        return True

    def check(self, data: Data) -> None:
        """Note which columns hold no whole numbers."""
        for i, item in enumerate(data):
            if type(item) is float:
                whole = item.is_integer()
                self._signed[i] &= whole and -_INT64_END <= item < _INT64_END
                self._unsigned[i] &= whole and 0 <= item < _UINT64_END

    def goals(self) -> list[t.Type]:
        """The types of the columns in the end."""
        return [self._goal(i, kind) for i, kind in enumerate(self._kinds)]

    def _goal(self, i: int, kind: t.Type) -> t.Type:
        if kind is t.FLOAT64 and not self._signed[i]:
            return t.UINT64 if self._unsigned[i] else kind
        return t.INT64 if kind in (t.FLOAT64, t.NULL) else kind


def _whole(item: Data, goal: t.Type) -> Data:
    return int(item) if type(item) is float and goal in (t.INT64, t.UINT64) else item


def explode(value: Value, typ: t.Type) -> Iterator[Value]:
    """The values of exactly this type in `value`, itself included; what is in one of them is not looked at again."""
    return _embedded(value.type, value.data, typ)


def _embedded(typ: t.Type, data: Data, target: t.Type) -> Iterator[Value]:
    if data is None:
        return
    if typ is target:
        yield Value(typ, data)
        return
    for part, item in _parts(typ, data):
        yield from _embedded(part, item, target)


def _parts(typ: t.Type, data: Data) -> Iterator[tuple[t.Type, Data]]:
    """What a value is made of. Elements of sets and maps come without their names."""
    match typ:
        case t.Named() | t.Error():
            yield typ.inner, data
        case t.Record():
            yield from zip(typ.children(), data, strict=True)
        case t.Array():
            yield from ((typ.elem, item) for item in data)
        case t.Set():
            yield from ((typ.elem.under, item) for item in data)
        case t.Map():
            yield from ((kind.under, item) for entry in data for kind, item in zip(typ.children(), entry, strict=True))
        case t.Union():
            yield typ.types[data[0]], data[1]


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


def parts(typ: t.Type, data: Data) -> Iterator[tuple[t.Type, Data]]:
    """The value, then all that it is made of, depth first; types come without names. A null has no parts."""
    typ = typ.under
    yield typ, data
    if isinstance(typ, t.Error):
        yield from parts(typ.inner, data)
    if data is None:
        return
    match typ:
        case t.Record():
            for field, item in zip(typ.fields, data, strict=True):
                yield from parts(field.type, item)
        case t.Array() | t.Set():
            for item in data:
                yield from parts(typ.elem, item)
        case t.Map():
            for key, item in data:
                yield from parts(typ.key, key)
                yield from parts(typ.value, item)
        case t.Union():
            yield from parts(typ.types[data[0]], data[1])
