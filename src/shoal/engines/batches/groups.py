"""Aggregation over a part of a batch: a partial result for each distinct row of what keys and aggregates look at.

The interpreter computes the keys, and what is aggregated, for the distinct rows; the number of rows that are equal to
one is its weight. Numbers in a field of their own are aggregated by numpy, however many of them are distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.engines.aggregates import AGGREGATES
from shoal.engines.batches.distinct import Distinct, distinct_rows, values_at
from shoal.engines.interp.aggregates.contract import feed
from shoal.engines.interp.aggregates.numeric import KINDS, MEAN, partial_number, wrapped
from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.expressions.access import SLOW, find
from shoal.engines.interp.expressions.logic import is_true
from shoal.engines.interp.operators.compiler import Compiler
from shoal.engines.interp.operators.records import nested_record
from shoal.engines.physical import Unsuited
from shoal.formats.columns.batches import Part, Rows
from shoal.formats.columns.projection import field_at, project_column, project_shape
from shoal.lang import plan
from shoal.lang.rules.project_fields import joined, paths_in
from shoal.model import types as t
from shoal.model.values import TRUE, Value, is_missing

_HALVES = 1 << 20
"""Numbers of 32 bits of which a float holds the sum exactly."""
_NUMERIC = frozenset(("sum", "min", "max", "avg"))


class Placed(NamedTuple):
    """A partial result, and the first row that it is of."""

    row: int
    partial: Value


class Grouping:
    """The partial results of an aggregation."""

    def __init__(self, op: plan.Summarize, compiler: Compiler, env: Env) -> None:
        """Unsuited if the results of an aggregate depend on more than distinct rows and their numbers."""
        if op.limit or op.partials_in or not all(_is_weighted(agg.name) for _, agg in op.aggs):
            raise Unsuited("an aggregate of all rows in their order")
        self._op, self._env = op, env
        self._keys = [compiler.exprs.expr(expr) for _, expr in op.keys]
        self._aggs = [_Aggregate(agg, compiler, env) for _, agg in op.aggs]
        self._paths = [path for path, _ in op.keys] + [path for path, _ in op.aggs]
        self._key_paths: tuple[plan.Path, ...] | None = ()
        for _, expr in op.keys:
            self._key_paths = joined(self._key_paths, paths_in(expr))

    def partials(self, part: Part, rows: Rows | None) -> Iterator[Placed]:
        """Partial results for some rows of a part, in the order of the first row of each."""
        column = part.column if rows is None else part.column.take(pa.array(rows))
        if not len(column):
            return
        numbers = [agg.numbers(part.shape, column) for agg in self._aggs]
        paths = self._key_paths
        for agg, own in zip(self._aggs, numbers, strict=True):
            paths = paths if own is not None else joined(paths, agg.paths)
        if paths is None:
            raise Unsuited("an expression of whole values")
        shape, used = project_shape(part.shape, paths), project_column(part.shape, column, paths)
        distinct = distinct_rows(shape, used)
        of_numbers = [None if own is None else own(distinct) for own in numbers]
        values = values_at(shape, used, distinct.firsts)
        offsets = part.rows if rows is None else part.rows[rows]
        places = offsets[distinct.firsts].tolist()
        for number, (place, value, count) in enumerate(zip(places, values, distinct.counts(), strict=True)):
            keys = [key(value, self._env) for key in self._keys]
            partials = [
                agg.weighted(value, count) if own is None else own[number]
                for agg, own in zip(self._aggs, of_numbers, strict=True)
            ]
            yield Placed(place, nested_record(list(zip(self._paths, [*keys, *partials], strict=True))))


def _is_weighted(name: str) -> bool:
    """Whether an aggregate of equal values follows from one of them and their number."""
    return name not in ("collect", "collect_map")


class _Aggregate:
    """One aggregate."""

    def __init__(self, agg: plan.Agg, compiler: Compiler, env: Env) -> None:
        self._agg, self._env = agg, env
        self._expr: Eval | None = compiler.exprs.optional(agg.expr)
        self._where: Eval | None = compiler.exprs.optional(agg.where)
        self.paths: tuple[plan.Path, ...] | None = ()
        """What it looks at; None if that is all."""
        for expr in (agg.expr, agg.where):
            if expr is not None:
                self.paths = joined(self.paths, paths_in(expr))

    def numbers(self, shape: t.Type, column: pa.Array) -> Callable[[Distinct], list[Value]] | None:
        """What aggregates a field of numbers for each distinct row; None if it is not just that."""
        agg = self._agg
        if agg.name not in _NUMERIC or agg.where is not None or not isinstance(agg.expr, plan.This):
            return None
        place = find(shape, agg.expr.path)
        if place is None or place is SLOW or place[1].under not in KINDS:
            return None
        numbers = _Numbers(KINDS[place[1].under], field_at(shape, column, agg.expr.path))
        return {"sum": numbers.sums, "min": numbers.least, "max": numbers.greatest, "avg": numbers.means}[agg.name]

    def weighted(self, value: Value, count: int) -> Value:
        """The partial result over rows that are equal to a value."""
        if self._where is not None and not is_true(self._where(value, self._env)):
            item = None
        else:
            item = TRUE if self._expr is None else self._expr(value, self._env)
        state = AGGREGATES[self._agg.name].state(self._env.run.limits)
        if item is None or is_missing(item):
            return state.partial()
        if isinstance(item.under().type, t.Decimal):
            raise Unsuited("a decimal, of which a sum may have too many digits")
        feed(state, item)
        return _times(self._agg.name, state.partial(), count)


def _times(name: str, partial: Value, count: int) -> Value:
    """The partial result over several values, given that over one of them."""
    if count == 1:
        return partial
    if name == "count":
        return Value(t.UINT64, partial.data * count)
    if name == "avg":
        total, items = partial.data
        return Value(MEAN, (total * count, items * count))
    if name == "sum":
        under = partial.type.under
        assert isinstance(under, t.Record)
        data = tuple(
            amount if amount is None else wrapped(f.type, amount * count)
            for f, amount in zip(under.fields, partial.data, strict=True)
        )
        return Value(partial.type, data)
    return partial


class _Numbers:
    """Aggregates of a column of numbers by distinct rows."""

    def __init__(self, kind: t.Primitive, column: pa.Array) -> None:
        self._kind = kind
        self._valid = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
        present = column if self._valid is None else column.drop_null()
        items = present.to_numpy(zero_copy_only=False)
        self._items: np.ndarray[Any, Any] = items.astype(np.float64) if kind is t.FLOAT64 else items

    def _codes(self, distinct: Distinct) -> Any:
        return distinct.codes if self._valid is None else distinct.codes[self._valid]

    def _added(self, codes: Any, items: np.ndarray[Any, Any], size: int) -> list[float]:
        added: list[float] = np.bincount(codes, items, size).tolist()
        return added

    def sums(self, distinct: Distinct) -> list[Value]:
        """Sums. Whole numbers are added in halves, which floats hold exactly, and wrap around in the end."""
        codes, size = self._codes(distinct), len(distinct.firsts)
        if self._kind is t.FLOAT64:
            totals: list[Any] = self._added(codes, self._items, size)
        else:
            wide = self._items.astype(np.uint64 if self._kind is t.UINT64 else np.int64)
            totals = [0] * size
            for start in range(0, len(wide), _HALVES):
                piece, own = wide[start : start + _HALVES], codes[start : start + _HALVES]
                low = self._added(own, (piece & piece.dtype.type(0xFFFFFFFF)).astype(np.float64), size)
                high = self._added(own, (piece >> piece.dtype.type(32)).astype(np.float64), size)
                totals = [n + (int(h) << 32) + int(w) for n, h, w in zip(totals, high, low, strict=True)]
        return self._numbers(totals, codes, size)

    def means(self, distinct: Distinct) -> list[Value]:
        """Sums and counts."""
        codes, size = self._codes(distinct), len(distinct.firsts)
        totals = self._added(codes, self._items.astype(np.float64), size)
        counts = np.bincount(codes, minlength=size).tolist()
        return [Value(MEAN, pair) for pair in zip(totals, counts, strict=True)]

    def least(self, distinct: Distinct) -> list[Value]:
        """The least numbers."""
        return self._extremes(distinct, np.minimum)

    def greatest(self, distinct: Distinct) -> list[Value]:
        """The greatest numbers."""
        return self._extremes(distinct, np.maximum)

    def _extremes(self, distinct: Distinct, choose: np.ufunc) -> list[Value]:
        codes, size, items = self._codes(distinct), len(distinct.firsts), self._items
        if self._kind is t.FLOAT64 and (np.isnan(items).any() or (np.signbit(items) & (items == 0)).any()):
            raise Unsuited("a NaN, which counts only if there is nothing else, or a zero with a sign")
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        extremes: list[Any] = [0] * size
        if len(items):
            for code, extreme in zip(
                codes[order][starts].tolist(), choose.reduceat(items[order], starts).tolist(), strict=True
            ):
                extremes[code] = extreme
        return self._numbers(extremes, codes, size)

    def _numbers(self, amounts: list[Any], codes: Any, size: int) -> list[Value]:
        """Partial results: nulls where there are no numbers, which count as numbers of their kind."""
        counts = np.bincount(codes, minlength=size).tolist()
        return [
            partial_number(Value(self._kind, wrapped(self._kind, amount) if count else None))
            for amount, count in zip(amounts, counts, strict=True)
        ]
