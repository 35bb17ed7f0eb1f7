"""Sorting, in memory as far as it goes and by runs on disk from there on; top and merge."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key
from itertools import chain, islice
from typing import Any

from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.expressions.access import path
from shoal.engines.interp.expressions.calls import Stream
from shoal.engines.interp.growth import within_memory
from shoal.engines.interp.operators.simple import close
from shoal.engines.interp.spill import Room, SpillFile, merge_runs
from shoal.engines.stopping import NEVER, Stop
from shoal.lang.rules.top_of_sort import MOST_HELD
from shoal.model import types as t
from shoal.model.order import compare_values
from shoal.model.values import NULL, Value, is_missing

_FLUSH_EVERY = 100


class Order:
    """How values are ordered: by expressions, each ascending or descending; a missing one counts as null."""

    def __init__(self, keys: Sequence[tuple[Eval, bool]], nulls_first: bool = False) -> None:
        self.keys = tuple((expr, descending, descending == nulls_first) for expr, descending in keys)

    def sort(self, values: list[Value], env: Env) -> list[Value]:
        """The values in order; equal ones stay as they are."""
        indexes = list(range(len(values)))
        for expr, descending, nulls_max in reversed(self.keys):
            keys = self._keys(expr, values, env)
            ranks = native_keys(keys, nulls_max, env.run.stop)
            indexes.sort(key=ranks.__getitem__, reverse=descending)
        return [values[i] for i in indexes]

    def _keys(self, expr: Eval, values: list[Value], env: Env) -> list[Value]:
        """The keys of values by one expression. They may take as much memory as the values that they are sorted for."""
        keys = (self._key(expr, value, env) for value in values)
        return list(within_memory(keys, env, 2 * env.run.memory.sort))

    def _key(self, expr: Eval, value: Value, env: Env) -> Value:
        key = expr(value, env)
        return NULL if is_missing(key) else key

    def key(self, env: Env) -> Callable[[Value], Any]:
        """A key function for what sorts one value at a time."""
        rank = cmp_to_key(self.compare_keys)

        def key_of(value: Value) -> Any:
            return rank(self.keys_of(value, env))

        return key_of

    def keys_of(self, value: Value, env: Env) -> list[Value]:
        """What a value is ordered by."""
        return [self._key(expr, value, env) for expr, _, _ in self.keys]

    def compare_keys(self, a: list[Value], b: list[Value]) -> int:
        """The order of two values by their keys."""
        for x, y, (_, descending, nulls_max) in zip(a, b, self.keys, strict=True):
            verdict = compare_values(y, x, nulls_max) if descending else compare_values(x, y, nulls_max)
            if verdict:
                return verdict
        return 0


def native_keys(values: list[Value], nulls_max: bool, stop: Stop = NEVER) -> list[Any]:
    """What Python may sort by instead of the values: plain data where it orders alike."""
    rank = cmp_to_key(stop.comparing(_comparison(nulls_max)))
    kinds = {value.type.under for value in values if value.data is not None}
    if all(t.is_number(kind) for kind in kinds):
        plain = [value.data for value in values]
        if any(kind in (t.FLOAT16, t.FLOAT32, t.FLOAT64) for kind in kinds) and any(_is_nan(d) for d in plain):
            return [rank(value) for value in values]
    elif len(kinds) == 1 and kinds <= {t.STRING, t.BYTES, t.BOOL}:
        plain = [value.data for value in values]
    else:
        return [rank(value) for value in values]
    if None not in plain:
        return plain
    missing, present = (1, 0) if nulls_max else (0, 1)
    return [(missing,) if data is None else (present, data) for data in plain]


def _is_nan(data: Any) -> bool:
    return isinstance(data, float) and math.isnan(data)


def _comparison(nulls_max: bool) -> Callable[[Value, Value], int]:
    return lambda a, b: compare_values(a, b, nulls_max)


def guess_key(value: Value) -> tuple[str, ...]:
    """What to sort by if nothing was said: the first integer, else float, else anything but a time."""
    typ = value.type.under
    if not isinstance(typ, t.Record):
        return ()
    tests: tuple[Callable[[t.Type], bool], ...] = (
        lambda kind: isinstance(kind, t.Primitive) and kind.id <= t.INT64.id,
        lambda kind: kind in (t.FLOAT16, t.FLOAT32, t.FLOAT64),
        lambda kind: kind is not t.TIME,
    )
    for test in tests:
        path = _first_field(typ, test)
        if path is not None:
            return path
    return ("ts",)


def _first_field(typ: t.Record, test: Callable[[t.Type], bool]) -> tuple[str, ...] | None:
    for f in typ.fields:
        under = f.type.under
        if test(under):
            return (f.name,)
        inner = _first_field(under, test) if isinstance(under, t.Record) else None
        if inner is not None:
            return (f.name, *inner)
    return None


def make_order(keys: Sequence[tuple[Eval, bool]], reverse: bool, nulls_first: bool) -> Order:
    """The order of a sort: nulls come last in both directions, unless they are to come first."""
    return Order([(expr, descending != reverse) for expr, descending in keys], nulls_first)


def sorted_stream(keys: Sequence[tuple[Eval, bool]], reverse: bool, nulls_first: bool) -> Stream:
    """All values in order."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        first = next(stream, None)
        if first is not None:
            yield from _sorted(chain((first,), stream), _order_from(first, keys, reverse, nulls_first), env)

    return run


def _order_from(first: Value, keys: Sequence[tuple[Eval, bool]], reverse: bool, nulls_first: bool) -> Order:
    """The order of a sort, for which the first value decides if there are no keys."""
    return make_order(keys or [(path(guess_key(first)), False)], reverse, nulls_first)


def _sorted(stream: Iterator[Value], order: Order, env: Env) -> Iterator[Value]:
    runs: list[SpillFile] = []
    buffer: list[Value] = []
    room = Room(env.run.memory.sort)
    for value in stream:
        buffer.append(value)
        if room.take(value):
            runs.append(SpillFile(env.run.workspace, env.run.stop.checked(order.sort(buffer, env))).seal())
            buffer = []
            room.reset()
    last = order.sort(buffer, env)
    if not runs:
        yield from env.run.stop.checked(last)
        return
    runs.append(SpillFile(env.run.workspace, env.run.stop.checked(last)).seal())
    del buffer, last
    yield from merge_runs(runs, order.key(env), env.run.workspace, env.run.stop)


def _first(count: int, stream: Iterator[Value], order: Order, env: Env) -> Iterator[Value]:
    """The first values of a sort. If they do not fit into memory, everything is sorted on disk."""
    buffer: list[Value] = []
    room = Room(env.run.memory.sort)
    for value in stream:
        buffer.append(value)
        if room.take(value) or len(buffer) >= 2 * count + 1000:
            buffer = order.sort(buffer, env)[:count]
            if room.keep(buffer):
                return islice(_sorted(chain(buffer, stream), order, env), count)
    return iter(order.sort(buffer, env)[:count])


def first_of_sort(count: int, keys: Sequence[tuple[Eval, bool]], reverse: bool, nulls_first: bool) -> Stream:
    """The first values of a sort, of which a few times that many are in memory at most."""

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        first = next(stream, None)
        if first is not None:
            order = _order_from(first, keys, reverse, nulls_first)
            yield from _first(count, chain((first,), stream), order, env)

    return run


def top(count: int, keys: Sequence[Eval], flush: bool) -> Stream:
    """The largest values in descending order; nulls are the smallest."""
    if count > MOST_HELD:
        everything = sorted_stream([(key, True) for key in keys], reverse=False, nulls_first=False)
        return lambda stream, env: islice(everything(stream, env), count)
    order = Order([(key, True) for key in keys])

    def run(stream: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        if not flush:
            yield from _first(count, stream, order, env)
            return
        for first in stream:
            yield from _first(count, chain((first,), islice(stream, _FLUSH_EVERY - 1)), order, env)

    return run


def merged(expr: Eval) -> Callable[[Sequence[Iterator[Value]], Env], Iterator[Value]]:
    """Ordered streams as one ordered stream."""
    order = Order([(expr, False)])

    def run(streams: Sequence[Iterator[Value]], env: Env) -> Iterator[Value]:
        try:
            yield from heapq.merge(*streams, key=order.key(env.fresh()))
        finally:
            for stream in streams:
                close(stream)

    return run
