"""Type fusion: one type that values of many types can be shaped to without loss.

Types merge from left to right, and the order counts: fields stand in the order of first sight, and
`[int64]`, `[string]`, `string` do not merge like `string`, `[int64]`, `[string]`, for arrays merge
with arrays but not with the arrays in a union. So a fusion keeps every type it saw.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.model.zcode import Data, normal_map, normal_set


class Fusion:
    """Types as they come, and the type they fuse to."""

    __slots__ = ("_last", "_pending", "_seen", "_type")

    def __init__(self) -> None:
        self._seen: dict[t.Type, None] = {}
        self._pending: deque[t.Type] = deque()
        self._last: t.Type | None = None
        self._type: t.Type | None = None

    def mix(self, typ: t.Type) -> None:
        """Add a type; one that was there before changes nothing."""
        if typ is self._last:
            return
        self._last = typ
        if typ not in self._seen:
            self._seen[typ] = None
            self._pending.append(typ)

    @property
    def types(self) -> tuple[t.Type, ...]:
        """The types mixed in, in the order of first sight."""
        return tuple(self._seen)

    @property
    def type(self) -> t.Type | None:
        """The fused type; None before the first."""
        while self._pending:
            first = self._pending[0]
            self._type = first if self._type is None else _merge(self._type, first)
            self._pending.popleft()
        return self._type


def fuse_types(types: Iterable[t.Type]) -> t.Type | None:
    """The type that all these types fuse to; None if there are none."""
    fusion = Fusion()
    for typ in types:
        fusion.mix(typ)
    return fusion.type


def _merge(a: t.Type, b: t.Type) -> t.Type:
    """One type for values of both. Containers merge part by part and lose their names; all else becomes a union."""
    if a.under is t.NULL:
        return b
    if a is b or b.under is t.NULL:
        return a
    match a.under, b.under:
        case t.Record() as x, t.Record() as y:
            return _merge_records(x, y)
        case t.Set() as x, t.Set() as y:
            return t.set_of(_merge(x.elem, y.elem))
        case (t.Array() | t.Set()) as x, (t.Array() | t.Set()) as y:
            return t.array(_merge(x.elem, y.elem))
        case t.Map() as x, t.Map() as y:
            return t.map_of(_merge(x.key, y.key), _merge(x.value, y.value))
        case t.Union() as x, t.Union() as y:
            return _union_of(x.types + y.types)
        case t.Union() as x, _:
            return _union_of((*x.types, b))
        case _, t.Union() as y:
            return _union_of((*y.types, a))
        case _:
            return t.union((a, b))


def _merge_records(a: t.Record, b: t.Record) -> t.Record:
    fields = {f.name: f.type for f in a.fields}
    for name, typ in b.fields:
        other = fields.get(name)
        fields[name] = typ if other is None else _merge(other, typ)
    return t.record(fields.items())


def _union_of(types: Iterable[t.Type]) -> t.Type:
    """A union in which all records are one; no union if one type is left."""
    record: t.Type | None = None
    others: dict[t.Type, None] = {}
    for typ in dict.fromkeys(types):
        if not isinstance(typ.under, t.Record):
            others[typ] = None
        else:
            record = typ if record is None else _merge(record, typ)
    members = (*others, record) if record is not None else tuple(others)
    return members[0] if len(members) == 1 else t.union(members)


Move: TypeAlias = Callable[[Data], Data]
"""From data of one type to data of the type that it was fused into."""


def mover(source: t.Type, to: t.Type) -> Move:
    """How data of a type goes into a type that it was fused into; nothing is lost on the way."""
    if source.under is to.under or source.under is t.NULL:
        return _same
    move = _mover(source.under, to.under)
    return lambda data: None if data is None else move(data)


def _same(data: Data) -> Data:
    return data


def _mover(source: t.Type, to: t.Type) -> Move:
    match source, to:
        case t.Union(), _:
            moves = [mover(member, to) for member in source.types]
            return lambda data: moves[data[0]](data[1])
        case _, t.Union():
            return _into_union(source, to)
        case t.Record(), t.Record():
            return _into_record(source, to)
        case ((t.Array() | t.Set()), t.Array()):
            elem = mover(source.elem, to.elem)
            return lambda data: tuple([elem(item) for item in data])
        case t.Set(), t.Set():
            elem, kind = mover(source.elem, to.elem), to.elem
            return lambda data: normal_set(kind, [elem(item) for item in data])
        case t.Map(), t.Map():
            key, value, kind = mover(source.key, to.key), mover(source.value, to.value), to.key
            return lambda data: normal_map(kind, [(key(k), value(v)) for k, v in data])
    raise InvalidInput(f"{format_type(source)} was not fused into {format_type(to)}")


def _into_union(source: t.Type, to: t.Union) -> Move:
    """Into the member that is the same; else into the first that takes it, as the record that all records became."""
    for tag, member in enumerate(to.types):
        if member.under is source:
            return _tagging(tag, _same)
    for tag, member in enumerate(to.types):
        try:
            return _tagging(tag, mover(source, member))
        except InvalidInput:
            continue
    raise InvalidInput(f"{format_type(source)} was not fused into {format_type(to)}")


def _tagging(tag: int, move: Move) -> Move:
    return lambda data: (tag, move(data))


def _into_record(source: t.Record, to: t.Record) -> Move:
    steps: list[tuple[int, Move] | None] = []
    for name, typ in to.fields:
        i = source.index.get(name)
        steps.append(None if i is None else (i, mover(source.fields[i].type, typ)))
    return lambda data: tuple([None if step is None else step[1](data[step[0]]) for step in steps])
