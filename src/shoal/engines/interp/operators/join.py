"""Joins: both sides sorted by their keys, then walked side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.operators.ordering import Order, sorted_stream
from shoal.engines.interp.spill import SpillingList
from shoal.model import types as t
from shoal.model.values import Value, is_missing, structured_error


class Side:
    """One side of a join: how its key is computed, and the order that it has by this key."""

    def __init__(self, key: Eval, order: str | None) -> None:
        self.key = key
        self.order = order


def join(
    style: str, left: Side, right: Side, cutter: Eval
) -> Callable[[Iterator[Value], Iterator[Value], Env], Iterator[Value]]:
    """A join of two streams. A right join is a left join the other way round."""
    if style == "right":
        left, right = right, left
    descending = (left.order or right.order or "asc") == "desc"
    keeps_unmatched = style != "inner"
    drops_matched = style == "anti"

    def run(a: Iterator[Value], b: Iterator[Value], env: Env) -> Iterator[Value]:
        env = env.fresh()
        if style == "right":
            a, b = b, a
        matches = Matches(_in_order(b, right, descending, env), right.key, descending, env)
        for value in _in_order(a, left, descending, env):
            key = left.key(value, env)
            if is_missing(key):
                continue
            matching = matches.find(key)
            if not matching and keeps_unmatched:
                yield value
            elif not drops_matched:
                for other in env.run.stop.checked(matching):
                    yield splice(value, cutter(other, env))

    return run


def _in_order(stream: Iterator[Value], side: Side, descending: bool, env: Env) -> Iterator[Value]:
    if side.order == ("desc" if descending else "asc"):
        return stream
    return sorted_stream([(side.key, descending)], reverse=False, nulls_first=False)(stream, env)


class Matches:
    """The right side: for keys that come in order, the values of each key."""

    def __init__(self, stream: Iterator[Value], key: Eval, descending: bool, env: Env) -> None:
        self._pairs = ((k, value) for value in stream if not is_missing(k := key(value, env)))
        self._next = next(self._pairs, None)
        self._order = Order([(key, descending)])
        self._key: Value | None = None
        self._run = env.run
        self._rows = self._no_rows()

    def _compare(self, a: Value, b: Value) -> int:
        return self._order.compare_keys([a], [b])

    def find(self, key: Value) -> SpillingList:
        """All values with this key; smaller keys are not asked for again."""
        if self._key is not None and self._compare(key, self._key) == 0:
            return self._rows
        while self._next is not None and self._compare(key, self._next[0]) > 0:
            self._next = next(self._pairs, None)
        self._rows.remove()
        rows = self._no_rows()
        while self._next is not None and self._compare(key, self._next[0]) == 0:
            rows.append(self._next[1])
            self._next = next(self._pairs, None)
        self._key, self._rows = key, rows
        return rows

    def _no_rows(self) -> SpillingList:
        return SpillingList(self._run.workspace, self._run.memory.sort)


def splice(left: Value, right: Value) -> Value:
    """One record of two; a name that both have gets a number."""
    left, right = left.under(), right.under()
    if not isinstance(left.type, t.Record):
        return structured_error("join: not a record", left)
    if not isinstance(right.type, t.Record):
        return left
    fields = (*left.type.fields, *right.type.fields)
    names = spliced_names([f.name for f in left.type.fields], [f.name for f in right.type.fields])
    typ = t.record(zip(names, (f.type for f in fields), strict=True))
    data = (left.data or (None,) * len(left.type.fields)) + (right.data or (None,) * len(right.type.fields))
    return Value(typ, data)


def spliced_names(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """The names of the fields of one record made of two; one that is there already gets a number."""
    names = dict.fromkeys(left)
    for right_name in right:
        name, k = right_name, 2
        while name in names:
            name, k = f"{right_name}_{k}", k + 1
        names[name] = None
    return list(names)
