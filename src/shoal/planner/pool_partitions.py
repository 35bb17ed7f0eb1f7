"""The partition expression of a pool: what it is for a record, and what filters ask of it.

The interpreter defines its value. For a field, and for `bucket` of a time, columns give the same without it. Two values
stand for many: null for nulls of all types, and missing for a record that lacks a field which the expression needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from shoal.engines.interp.engine import evaluate, evaluator
from shoal.engines.interp.functions.table import NEED_NAMES
from shoal.errors import InvalidInput
from shoal.lake.partition_changes import WholePartitions
from shoal.lake.pool_partitions import Division, Indivisible
from shoal.lake.pools import Pool
from shoal.lang import plan
from shoal.lang.compile import compile_program
from shoal.lang.source import ProgramError
from shoal.lang.walk import nodes
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import MISSING, NULL, Value
from shoal.model.zcode import encode

if TYPE_CHECKING:
    import numpy
    import pyarrow as pa

    from shoal.formats.columns import kernels, physical
    from shoal.formats.columns.batches import Part, Rows
    from shoal.lake import key_columns
else:
    numpy = lazy("numpy")
    kernels = lazy("shoal.formats.columns.kernels")
    physical = lazy("shoal.formats.columns.physical")
    key_columns = lazy("shoal.lake.key_columns")

LONGEST = 4096
"""Bytes of a partition value: it is part of the description of each object."""
_CHANGING = frozenset(("now", "ksuid"))
_SHOWN = 200
"""Characters of a record in an error."""


# ---- the expression


def compile_partition(text: str) -> plan.Expr:
    """The expression in a text; InvalidInput, in one line, if it cannot divide a pool."""
    try:
        return _compiled(text)
    except ProgramError as e:
        raise _invalid(text, str(e).partition("\n")[0].partition(" at line ")[0]) from None


@lru_cache(maxsize=256)
def _compiled(text: str) -> plan.Expr:
    program = compile_program(f"yield {text}", evaluate)
    match program.body:
        case (plan.DefaultScan(filter=None), plan.Yield((expr,))) if not program.funcs:
            pass
        case _:
            raise _invalid(text, "it has to be one expression")
    for node in nodes(expr):
        match node:
            case plan.Agg(name):
                raise _invalid(text, f"{name} is an aggregate, which depends on other records")
            case plan.Call(name) if name in _CHANGING:
                raise _invalid(text, f"{name} is another value each time")
            case plan.Call(name) if name in NEED_NAMES:
                raise _invalid(text, f"{name} depends on the types of other records")
            case plan.Subquery():
                raise _invalid(text, "it has a query inside")
    if not _paths(expr):
        raise _invalid(text, "it names no field")
    return expr


def _invalid(text: str, why: str) -> InvalidInput:
    return InvalidInput(f"invalid partition expression {text!r}: {why} (such as a field, or bucket(ts,1d))")


def _paths(expr: plan.Expr) -> tuple[tuple[str, ...], ...]:
    """The fields that an expression names."""
    return tuple(dict.fromkeys(node.path for node in nodes(expr) if isinstance(node, plan.This)))


def parse_partition_value(text: str) -> Value:
    """The partition that a text names: a value as in ZSON, a constant expression, or `missing`."""
    if text.strip() == "missing":
        return MISSING
    with suppress(InvalidInput):
        value = parse_value(text)
        return NULL if value.data is None else value
    try:
        program = compile_program(f"yield {text}", evaluate)
    except ProgramError as e:
        raise InvalidInput(f"invalid partition {text!r}: {str(e).partition(chr(10))[0]}") from None
    match program.body:
        case (plan.DefaultScan(), plan.Yield((expr,))) if not any(
            isinstance(n, plan.This | plan.Agg) for n in nodes(expr)
        ):
            value = evaluate(expr, program.funcs)
            return NULL if value.data is None else value
    raise InvalidInput(f"invalid partition {text!r}: not a constant (write strings in quotes, times as in ZSON)")


def same_partition(value: Value) -> Callable[[Value], bool]:
    """Whether a partition is the one of a value: the very same, or one that is equal as `==` has it."""
    test = evaluator(plan.Binary("==", plan.This(()), plan.Literal(value)))
    return lambda other: other == value or (value.data is not None and _is_true(test(other)))


def whole_partitions(text: str) -> WholePartitions:
    """The partitions that a text names."""
    return WholePartitions(text, same_partition(parse_partition_value(text)))


def _is_true(value: Value) -> bool:
    value = value.under()
    return value.type is t.BOOL and value.data is True


# ---- of records


@frozen
class ExpressionDivider:
    """Knows the partitions of records by the text of an expression."""

    text: str

    def partition_of(self, value: Value) -> Value:
        """The partition of a value."""
        return _partition(self.text, value, _evaluator(self.text)(value), 0)

    def divide(self, part: Part) -> Division:
        """The partitions of the rows of one shape."""
        division = _divide_column(compile_partition(self.text), part)
        if division is None:
            return self._divide_rows(part)
        if any(_size(value) > LONGEST for value in division.values):
            return self._divide_rows(part)  # to name the record
        return Division([NULL if value.data is None else value for value in division.values], division.indexes)

    def _divide_rows(self, part: Part) -> Division:
        evaluate_for, numbers = _evaluator(self.text), dict[Value, int]()
        indexes = numpy.zeros(len(part.rows), numpy.int64)
        for row, data in enumerate(physical.from_arrow(part.shape, part.column)):
            value = Value(part.shape, data)
            partition = _partition(self.text, value, evaluate_for(value), row)
            indexes[row] = numbers.setdefault(partition, len(numbers))
        return Division(list(numbers), indexes)


@lru_cache(maxsize=256)
def _evaluator(text: str) -> Callable[[Value], Value]:
    return evaluator(compile_partition(text))


def _size(value: Value) -> int:
    return len(encode(value.type, value.data) or b"")


def _partition(text: str, value: Value, result: Value, row: int) -> Value:
    """The partition of a record, given what the expression is for it."""
    if result.data is None:
        return NULL
    if has_error(result.type, result.data):
        expr = compile_partition(text)
        if any(evaluate(plan.This(path), (), value) == MISSING for path in _paths(expr)):
            return MISSING
        raise Indivisible(row, f"the partition expression {text} is {_cut(result)} for {_cut(value)}")
    if _size(result) > LONGEST:
        raise Indivisible(row, f"the partition expression {text} has more than {LONGEST} bytes for {_cut(value)}")
    return result


def _cut(value: Value) -> str:
    text = format_value(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def has_error(typ: t.Type, data: object) -> bool:
    """Whether a value is an error, or has one in it."""
    if data is None or not _may_have_error(typ):
        return False
    under = typ.under
    if isinstance(under, t.Error):
        return True
    if isinstance(under, t.Record):
        assert isinstance(data, tuple)
        return any(has_error(f.type, each) for f, each in zip(under.fields, data, strict=True))
    return True  # in a union, an array or a map: it does not matter where


def _may_have_error(typ: t.Type) -> bool:
    under = typ.under
    return isinstance(under, t.Error) or any(map(_may_have_error, under.children()))


@frozen
class WithinDivider:
    """Refuses records of other partitions than those that are meant."""

    divider: ExpressionDivider
    meant: Value

    def partition_of(self, value: Value) -> Value:
        """The partition of a value."""
        partition = self.divider.partition_of(value)
        self._check(partition, 0)
        return partition

    def divide(self, part: Part) -> Division:
        """The partitions of the rows of one shape."""
        division = self.divider.divide(part)
        for index, partition in enumerate(division.values):
            self._check(partition, numpy.flatnonzero(division.indexes == index)[0])
        return division

    def _check(self, partition: Value, row: int) -> None:
        if not same_partition(self.meant)(partition):
            raise Indivisible(
                int(row),
                f"the program gives a record of partition {_cut(partition)}, not {_cut(self.meant)} "
                "(a rewrite stays in its partition: load other records)",
            )


def with_partitions(pool: Pool) -> Pool:
    """The pool, able to write: it knows the partition of a record, if it has partitions."""
    text = pool.config.settings.partition
    return pool if not text or pool.divider is not None else replace(pool, divider=ExpressionDivider(text))


def within_partition(pool: Pool, meant: Value) -> Pool:
    """The pool, able to write records of a partition and to refuse others."""
    return replace(pool, divider=WithinDivider(ExpressionDivider(pool.config.settings.partition), meant))


# ---- of columns

_BUCKETS = ("bucket", "every")
Column: TypeAlias = "pa.Array | pa.ChunkedArray"
_PLAIN = (*t.SIGNED, *t.UNSIGNED, t.DURATION, t.TIME, t.DATE, t.STRING, t.BOOL)


def bucket_of(expr: plan.Expr) -> tuple[tuple[str, ...], int] | None:
    """The field and the step of an expression that is a bucket of a field."""
    match expr:
        case plan.Call(name, (plan.This(path), plan.Literal(step))) if name in _BUCKETS and path:
            if step.type is t.DURATION and step.data is not None and step.data > 0:
                return path, step.data
    return None


def _divide_column(expr: plan.Expr, part: Part) -> Division | None:
    """The partitions of rows by their columns, null of any type included; None if rows have to be looked at."""
    bucket = bucket_of(expr)
    path = bucket[0] if bucket is not None else expr.path if isinstance(expr, plan.This) else ()
    if not path or not isinstance(part.shape.under, t.Record):
        return None
    place = key_columns.find_place(part.shape, path)
    if place is None:
        is_whole = len(path) == 1 and not part.column.null_count
        return Division([MISSING], numpy.zeros(len(part.rows), numpy.int64)) if is_whole else None
    if place is key_columns.SOMEWHERE:
        return None
    typ = place[1]
    if bucket is None:
        return _distinct(typ, kernels.field(part.column, place[0])) if typ.under in _PLAIN else None
    if typ.under not in (t.TIME, t.DURATION):
        return None
    return _buckets(t.TIME if typ.under is t.TIME else t.DURATION, kernels.field(part.column, place[0]), bucket[1])


def _distinct(typ: t.Type, column: Column) -> Division:
    """The distinct values of a column."""
    whole = kernels.whole(column)
    if typ.under is t.STRING or whole.null_count or kernels.goes_without(len(whole)):
        return _counted(typ, whole)
    items = whole.to_numpy(zero_copy_only=False)
    if items.dtype.kind not in "iub":
        return _counted(typ, whole)
    firsts, indexes = numpy.unique(items, return_index=True, return_inverse=True)[1:]
    return Division([Value(typ, data) for data in _taken(typ, whole, firsts)], indexes.astype(numpy.int64))


def _taken(typ: t.Type, column: Column, rows: Rows) -> Sequence[Any]:
    return physical.from_arrow(typ, kernels.take(column, rows))


def _counted(typ: t.Type, column: Column) -> Division:
    if not kernels.goes_without(len(column)):
        encoded = column.dictionary_encode("encode")
        values = [Value(typ, data) for data in physical.from_arrow(typ, encoded.dictionary)]
        return Division(values, encoded.indices.to_numpy(zero_copy_only=False).astype(numpy.int64))
    numbers: dict[object, int] = {}
    indexes = [numbers.setdefault(data, len(numbers)) for data in physical.from_arrow(typ, column)]
    return Division([Value(typ, data) for data in numbers], numpy.array(indexes, numpy.int64))


def _buckets(typ: t.Type, column: Column, step: int) -> Division | None:
    """The buckets of times or durations: cut towards zero, as the interpreter does."""
    whole = kernels.whole(column)
    is_valid = kernels.valid_rows(whole)
    numbers = whole.drop_null().to_numpy() if whole.null_count else whole.to_numpy()
    if len(numbers) and int(numbers.min()) == -(2**63):
        return None
    counts, indexes = numpy.unique(numpy.abs(numbers) // step * numpy.sign(numbers), return_inverse=True)
    values = [Value(typ, int(count) * step) for count in counts]
    if not whole.null_count:
        return Division(values, indexes.astype(numpy.int64))
    every = numpy.full(len(whole), len(values), numpy.int64)
    every[is_valid] = indexes
    return Division([*values, NULL], every)
