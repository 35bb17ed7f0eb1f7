"""Aggregation by keys: groups in memory, and sorted partial results on disk once there are too many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key
from itertools import groupby
from typing import Any, NamedTuple

from shoal.engines.interp.aggregates.contract import Aggregate, Limits
from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.expressions.calls import Stream
from shoal.engines.interp.expressions.logic import is_true
from shoal.engines.interp.growth import OF_ANY_SIZE
from shoal.engines.interp.operators.records import nested_record
from shoal.engines.interp.spill import SpillFile, estimate, merge_runs
from shoal.lang.plan import Path
from shoal.model import types as t
from shoal.model import values
from shoal.model.extent import size_of
from shoal.model.order import compare_values
from shoal.model.values import MISSING, NULL, TRUE, Value, is_missing, is_quiet
from shoal.model.zcode import encode

GROUP_OVERHEAD = 400
"""What a group costs in memory beside its keys, roughly."""
_LARGE = 4096
"""The size of values that count even for an aggregate that keeps one of them, such as `max`."""


class Aggregation(NamedTuple):
    """One aggregate: its result's path, how it starts, what it is fed, and on which condition."""

    path: Path
    make: Callable[[Limits], Aggregate]
    expr: Eval | None
    where: Eval | None
    grows: bool = False
    """Whether it gets larger with what it is fed."""


class Group(NamedTuple):
    """The keys of a group, and its aggregates so far."""

    keys: list[Value]
    states: list[Aggregate]


def summarized(
    aggs: Sequence[Aggregation],
    keys: Sequence[tuple[Path, Eval]],
    limit: int,
    partials_in: bool = False,
    partials_out: bool = False,
) -> Stream:
    """Aggregates by keys; groups come out in the order in which they first came in, or sorted if they went to disk."""
    paths = [path for path, _ in keys] + [agg.path for agg in aggs]
    find = _key_finder([expr for _, expr in keys])
    update = _merge if partials_in else _feed

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        table = Table(aggs, env, limit or env.run.memory.groups)
        groups = table.groups
        for value in stream:
            exact, keys = find(value, env)
            group = groups.get(exact)
            if table.room <= 0:
                table.spill()
                group = None
            if group is None:
                if any(is_quiet(key) for key in keys):
                    continue
                group = table.new_group(exact, keys)
            update(aggs, group.states, value, env, table)
        for group in env.run.stop.checked(table.finish()):
            results = [state.partial() if partials_out else state.result() for state in group.states]
            yield nested_record(list(zip(paths, [*group.keys, *results], strict=True)))

    return run


def _key_finder(exprs: list[Eval]) -> Callable[[Value, Env], tuple[Any, list[Value]]]:
    """The keys of a value and the identity of their group. One key, the usual case, has a faster way."""
    if len(exprs) == 1:
        expr = exprs[0]

        def find_one(value: Value, env: Env) -> tuple[Any, list[Value]]:
            key = expr(value, env)
            return exact_key(key), [key]

        return find_one

    def find(value: Value, env: Env) -> tuple[Any, list[Value]]:
        keys = [expr(value, env) for expr in exprs]
        return tuple([exact_key(key) for key in keys]), keys

    return find


def _feed(aggs: Sequence[Aggregation], states: list[Aggregate], value: Value, env: Env, table: Table) -> None:
    for i, (_, _, expr, where, grows) in enumerate(aggs):
        if where is None or is_true(where(value, env)):
            item = TRUE if expr is None else expr(value, env)
            if item is not MISSING and not is_missing(item):
                states[i].consume(item)
                if grows or (type(item.data) in OF_ANY_SIZE and size_of(item) > _LARGE):
                    table.room -= estimate(item)


def _merge(aggs: Sequence[Aggregation], states: list[Aggregate], value: Value, env: Env, table: Table) -> None:
    for agg, state in zip(aggs, states, strict=True):
        partial: Value | None = value
        for name in agg.path:
            partial = None if partial is None else partial.field(name)
        if partial is not None:
            state.merge(partial)
            if agg.grows:
                table.room -= estimate(partial)


class Table:
    """The groups by their keys."""

    def __init__(self, aggs: Sequence[Aggregation], env: Env, limit: int) -> None:
        self._aggs = aggs
        self._env = env
        self._limit = limit
        self.groups: dict[Any, Group] = {}
        self.room = env.run.memory.aggregate
        self._runs: list[SpillFile] = []

    def new_group(self, exact: Any, keys: list[Value]) -> Group:
        """A group that is not there yet; if there is no room for it, the others go to disk."""
        if len(self.groups) >= self._limit:
            self.spill()
        group = self.groups[exact] = Group(keys, self._states())
        self.room -= GROUP_OVERHEAD + sum(map(estimate, keys))
        return group

    def _states(self) -> list[Aggregate]:
        limits = self._env.run.limits
        return [agg.make(limits) for agg in self._aggs]

    def spill(self) -> None:
        """Put all groups on disk, as they are so far."""
        stop = self._env.run.stop
        rows = [self._row(group) for group in stop.checked(self.groups.values())]
        rows.sort(key=cmp_to_key(stop.comparing(_compare_rows)))
        self._runs.append(SpillFile(self._env.run.workspace, stop.checked(rows)).seal())
        self.groups.clear()
        self.room = self._env.run.memory.aggregate

    def _row(self, group: Group) -> Value:
        """A group as one value: its keys and its partial results by position."""
        keys = values.record((f"k{i}", key) for i, key in enumerate(group.keys))
        partials = values.record((f"p{i}", state.partial()) for i, state in enumerate(group.states))
        return values.record((("keys", keys), ("partials", partials)))

    def finish(self) -> Iterator[Group]:
        """All groups."""
        if not self._runs:
            yield from self.groups.values()
            return
        self.spill()
        merged = merge_runs(self._runs, _ROW_ORDER, self._env.run.workspace, self._env.run.stop)
        for _, rows in groupby(merged, key=lambda row: tuple(exact_key(key) for key in _row_keys(row))):
            yield self._joined(rows)

    def _joined(self, rows: Iterator[Value]) -> Group:
        states = self._states()
        keys: list[Value] = []
        for row in rows:
            keys = keys or _row_keys(row)
            partials = row.field("partials") or MISSING
            for i, state in enumerate(states):
                state.merge(partials.field(f"p{i}") or NULL)
        return Group(keys, states)


def exact_key(value: Value) -> Any:
    """The identity of a key: its type and its data, floats by their bits."""
    typ = value.type
    if typ.has_float or typ is t.TYPE:
        return (typ, encode(typ, value.data))
    return (typ, value.data)


def _row_keys(row: Value) -> list[Value]:
    keys = row.field("keys")
    assert keys is not None
    typ = keys.type.under
    assert isinstance(typ, t.Record)
    return [Value(f.type, data) for f, data in zip(typ.fields, keys.data, strict=True)]


def _compare_rows(a: Value, b: Value) -> int:
    """By keys as a sort would have it; what is equal there but not the same, by type and bytes."""
    for x, y in zip(_row_keys(a), _row_keys(b), strict=True):
        p, q = (NULL if is_missing(x) else x), (NULL if is_missing(y) else y)
        verdict = compare_values(p, q, True) or t.compare_types_totally(x.type, y.type) or _compare_bytes(x, y)
        if verdict:
            return verdict
    return 0


def _compare_bytes(x: Value, y: Value) -> int:
    p, q = encode(x.type, x.data) or b"", encode(y.type, y.data) or b""
    return (p > q) - (p < q)


_ROW_ORDER = cmp_to_key(_compare_rows)
