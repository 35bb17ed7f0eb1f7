"""Conditions over a part of a batch: which of its rows meet them.

The interpreter decides about distinct rows, and so about all of them. Where these are many, a comparison of a field
with a constant and a search are done with whole columns, by the same rules. Anything else is Unsuited.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.batches.distinct import distinct_rows, values_at
from shoal.engines.interp.environment import Env, Eval
from shoal.engines.interp.expressions.access import SLOW, find
from shoal.engines.interp.expressions.compare import Test, is_comparable
from shoal.engines.interp.expressions.logic import is_true
from shoal.engines.interp.expressions.search import Finder, finder_of, regexp_finder
from shoal.engines.interp.operators.compiler import Compiler
from shoal.engines.physical import Unsuited
from shoal.formats.columns.batches import Part, Rows
from shoal.formats.columns.physical import from_arrow
from shoal.formats.columns.projection import field_at, project_column, project_shape
from shoal.lang import plan
from shoal.lang.rules.project_fields import paths_in
from shoal.model import types as t
from shoal.model.values import Value

Mask = np.ndarray[Any, np.dtype[np.bool_]]
_ON_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ON_COLUMNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_EXACT_FLOATS = 1 << 53
"""Below this, whole numbers and floats compare as what they are."""


def conjuncts(expr: plan.Expr) -> list[plan.Expr]:
    """The conditions that have to hold for a condition to hold."""
    match expr:
        case plan.Binary("and", left, right):
            return [*conjuncts(left), *conjuncts(right)]
    return [expr]


class Filter:
    """Picks the rows that meet conditions."""

    def __init__(self, conditions: list[plan.Expr], compiler: Compiler, env: Env) -> None:
        self._conditions = [
            _Condition(each, compiler, env) for condition in conditions for each in conjuncts(condition)
        ]

    def rows(self, part: Part) -> Rows | None:
        """The rows of a part, ascending, that meet all conditions; None if all do."""
        rows: Rows | None = None
        for condition in self._conditions:
            column = part.column if rows is None else part.column.take(pa.array(rows))
            mask = condition.mask(part.shape, column)
            if mask.all():
                continue
            own = np.flatnonzero(mask)
            rows = own if rows is None else rows[own]
        return rows


class _Condition:
    def __init__(self, expr: plan.Expr, compiler: Compiler, env: Env) -> None:
        self._expr, self._env = expr, env
        self._eval: Eval = compiler.exprs.expr(expr)
        self._paths = paths_in(expr)
        self._finder = _finder(expr)

    def mask(self, shape: t.Type, column: pa.Array) -> Mask:
        """Which rows of a column meet it."""
        match self._expr:
            case plan.Binary(op, plan.This(path), plan.Literal(value)) if op in _ON_ARRAYS and is_comparable(value, op):
                mask = _compared(op, shape, column, path, value)
                if mask is not None:
                    return mask
        if self._finder is not None:
            return _searched(self._finder, shape, column)
        if self._paths is None:
            raise Unsuited("a condition on whole values")
        return self._by_distinct(project_shape(shape, self._paths), project_column(shape, column, self._paths))

    def _by_distinct(self, shape: t.Type, column: pa.Array) -> Mask:
        distinct = distinct_rows(shape, column)
        verdicts = [is_true(self._eval(value, self._env)) for value in values_at(shape, column, distinct.firsts)]
        mask: Mask = np.array(verdicts, bool)[distinct.codes]
        return mask


# ---- comparisons


def _compared(op: str, shape: t.Type, column: pa.Array, path: plan.Path, value: Value) -> Mask | None:
    """Which rows compare with a constant; None if that is not done with columns."""
    place = find(shape, path)
    if place is None:
        return np.zeros(len(column), bool)  # what is missing is not true
    if place is SLOW or isinstance(place[1].under, t.Error):
        return None
    return _compared_leaf(op, place[1], field_at(shape, column, path), value)


def _compared_leaf(op: str, typ: t.Type, column: pa.Array, value: Value) -> Mask | None:
    under, kind = typ.under, value.type.under
    if kind is t.NULL and isinstance(under, t.Primitive):
        nulls: Mask = column.is_null().to_numpy(zero_copy_only=False)
        return nulls if op == "==" else ~nulls
    if t.is_number(under) and t.is_number(kind):
        return _compared_numbers(op, column, value.data)
    if under is t.STRING and kind is t.STRING:
        return _known(_ON_COLUMNS[op](column, pa.scalar(value.data, pa.string())), op == "!=")
    return None


def _compared_numbers(op: str, column: pa.Array, constant: Any) -> Mask | None:
    is_float = pa.types.is_floating(column.type)
    if not isinstance(constant, (int, float)) or not (is_float or pa.types.is_integer(column.type)):
        return None
    if abs(constant) >= _EXACT_FLOATS if isinstance(constant, int) else not is_float:
        return None
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    items = (column.fill_null(0) if nulls is not None else column).to_numpy(zero_copy_only=False)
    if is_float:
        items = items.astype(np.float64)  # else numpy would round the constant
    mask: Mask = _ON_ARRAYS[op](items, constant)
    return mask if nulls is None else np.where(nulls, op == "!=", mask)


def _known(verdicts: pa.Array, of_null: bool) -> Mask:
    mask: Mask = verdicts.fill_null(of_null).to_numpy(zero_copy_only=False)
    return mask


# ---- searches


def _finder(expr: plan.Expr) -> Finder | None:
    """What a condition looks for in whole rows, if that is what it does."""
    match expr:
        case plan.Search(text, value, plan.This(())):
            return finder_of(text, value)
        case plan.RegexpSearch(pattern, plan.This(())):
            return regexp_finder(pattern)
    return None


def _searched(finder: Finder, shape: t.Type, column: pa.Array) -> Mask:
    """The rows in which something is found. A row that is an error itself is not searched."""
    return np.zeros(len(column), bool) if isinstance(shape.under, t.Error) else _found(finder, shape, column)


def _found(finder: Finder, typ: t.Type, column: pa.Array) -> Mask:
    under, test = typ.under, finder.test_of(typ)
    none = np.zeros(len(column), bool)
    if test is None:
        return none
    if isinstance(under, t.Record):
        if finder.is_in_names(under):
            return ~none
        fields = zip(under.fields, column.flatten(), strict=True)
        mask: Mask = np.logical_or.reduce([none, *(_found(finder, field.type, inner) for field, inner in fields)])
        return mask & column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else mask
    if under is t.STRING and finder.term is not None and finder.term.isascii():
        return _containing(column, finder.term, test)
    try:
        distinct = distinct_rows(typ, column)
    except Unsuited:
        return _tested(test, from_arrow(typ, column))
    return _tested(test, from_arrow(typ, column.take(pa.array(distinct.firsts))))[distinct.codes]


def _containing(column: pa.Array, term: str, test: Test) -> Mask:
    """The strings that contain an ASCII term, in upper or lower case. Strings that are not ASCII are tested each."""
    mask = _known(pc.match_substring(pc.ascii_lower(column), term.lower()), False)
    if not _is_ascii(column):
        rows = np.flatnonzero(~_known(pc.string_is_ascii(column), True))
        mask = mask.copy()
        mask[rows] = _tested(test, column.take(pa.array(rows)).to_pylist())
    return mask


def _is_ascii(column: pa.Array) -> bool:
    _, offsets, data = column.buffers()
    if data is None:
        return True
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return not len(content) or int(content.max()) < 128


def _tested(test: Test, items: list[Any]) -> Mask:
    return np.fromiter((test(item) for item in items), bool, len(items))
