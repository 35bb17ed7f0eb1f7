"""Formulas as functions of DuckDB: the interpreter computes each one for the distinct arguments of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.interp.environment import Env, Run
from shoal.engines.interp.growth import within_memory
from shoal.engines.interp.operators.compiler import Compiler
from shoal.engines.sql.formulas import CODE, Column, Computed, Formula, Input, Record, Result
from shoal.engines.sql.nodes import Const
from shoal.errors import ShoalError
from shoal.formats.columns.physical import arrow_type, from_arrow, to_arrow
from shoal.lang import plan
from shoal.lang.recursion import deep_frames
from shoal.model import types as t
from shoal.model.extent import size_of
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.model.zcode import Data

MOST_KNOWN = 50_000
"""How many results a formula remembers."""
_BATCHES = 8
"""How many copies of a batch of results there are at a time: values, columns of Arrow and of DuckDB, in each thread."""
_numbers = count()


class Functions:
    """The functions that a query needs, on its connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._names: dict[Formula, str] = {}
        self.failure: ShoalError | None = None
        """The error of ours that made a query fail, which the engine hides in one of its own."""

    def name(self, call: Computed) -> str:
        """The name under which a formula is called."""
        name = self._names.get(call.formula)
        if name is None:
            name = self._names[call.formula] = f"{call.name}_{next(_numbers)}"
            self._create(name, call.formula)
        return name

    def _create(self, name: str, formula: Formula) -> None:
        compute = Evaluation(formula)

        def run(*columns: pa.ChunkedArray) -> pa.Array:
            try:
                with deep_frames():
                    return compute(columns)
            except ShoalError as e:
                self.failure = e
                raise

        # What has effects is neither called twice for a row nor for rows that are filtered later.
        self._connection.create_function(
            name,
            run,
            None,
            self._connection.from_arrow(pa.table({"x": pa.array([], compute.type)})).types[0],
            type="arrow",
            null_handling="special",
            side_effects=True,
        )

    def drop(self) -> None:
        """Forget them all; those that stay would be reported as leaks when Python ends."""
        for name in self._names.values():
            self._connection.remove_function(name)
        self._names.clear()


class Evaluation:
    """A formula over columns."""

    def __init__(self, formula: Formula) -> None:
        self._this = formula.this
        self._codes = {result: code for code, result in enumerate(formula.results)}
        self._types = [_type_of(result) for result in formula.results]
        with deep_frames():
            self._compute = Compiler(plan.Program(())).exprs.expr(formula.expr)
        self._env = Env(Run())
        self._results: dict[Data, Value] = {}
        self._cached_bytes = 0
        self._room = self._env.run.memory.sort // _BATCHES
        self.type = _physical_type(self._types)
        """How results lie in a column."""

    def __call__(self, columns: Sequence[pa.ChunkedArray]) -> pa.Array:
        """The results for the rows of some columns."""
        arrays = [column.combine_chunks() for column in columns]
        distinct, inverse = _distinct(arrays)
        results = self._computed(_data(self._this, distinct, len(distinct[0])))
        return self._packed(results).take(inverse)

    def _computed(self, data: list[Data]) -> list[Value]:
        typ, compute, env, cache = self._this.type, self._compute, self._env, self._results
        if typ.has_float:
            # Zeros of either sign are one to Python.
            return list(within_memory((compute(Value(typ, d), env) for d in data), env, self._room))
        if len(cache) > MOST_KNOWN or self._cached_bytes > self._room:
            cache.clear()
            self._cached_bytes = 0

        def value_of(d: Data) -> Value:
            value = cache.get(d)
            if value is None:
                value = cache[d] = compute(Value(typ, d), env)
                self._cached_bytes += size_of(value)
            return value

        return list(within_memory(map(value_of, data), env, self._room))

    def _packed(self, results: list[Value]) -> pa.Array:
        """Results as a column: of their type, or of a struct if they may have several."""
        codes = [self._code(value) for value in results]
        if len(self._types) == 1:
            return to_arrow(self._types[0], [value.data for value in results])
        parts = [self._part(code, results, codes) for code in range(len(self._types))]
        return pa.StructArray.from_arrays([pa.array(codes, pa.int8()), *parts], fields=list(self.type))

    def _part(self, code_: int, results: list[Value], codes: list[int]) -> pa.Array:
        """The column of one of several results."""
        typ = self._types[code_]
        if typ is t.NULL or code_ not in codes:
            return pa.nulls(len(results), arrow_type(typ))
        return to_arrow(typ, [v.data if code == code_ else None for v, code in zip(results, codes, strict=True)])

    def _code(self, value: Value) -> int:
        code = self._codes.get(value.type)
        if code is None:
            code = self._codes.get(value)
        if code is None:
            raise AssertionError(f"a result that was not expected: {format_value(value)}")
        return code


def _type_of(result: Result) -> t.Type:
    """The type of the column of a result; one that is known has nothing to say there."""
    return t.NULL if isinstance(result, Value) else result


def _physical_type(types: Sequence[t.Type]) -> pa.DataType:
    if len(types) == 1:
        return arrow_type(types[0])
    return pa.struct([(CODE, pa.int8()), *((str(index), arrow_type(typ)) for index, typ in enumerate(types))])


def _data(input_: Input, columns: Sequence[pa.Array], size: int) -> list[Data]:
    """The data of the current value in each row."""
    match input_:
        case Const(value):
            return [value.data] * size
        case Column(typ, index):
            column, physical = columns[index], arrow_type(typ)
            return from_arrow(typ, column if column.type == physical else column.cast(physical))
        case Record(_, fields, valid):
            parts = [_data(f, columns, size) for f in fields]
            rows: list[Data] = list(zip(*parts, strict=True)) if parts else [()] * size
            if valid is None:
                return rows
            return [row if is_valid else None for row, is_valid in zip(rows, columns[valid].to_pylist(), strict=True)]


# ---- distinct rows


def _distinct(columns: Sequence[pa.Array]) -> tuple[list[pa.Array], pa.Array]:
    """The distinct rows of some columns, and for each row its index among them."""
    codes = [_codes(column) for column in columns]
    if any(numbers is None for numbers in codes):
        return list(columns), pa.array(np.arange(len(columns[0])))
    combined: Any = 0
    for numbers in codes:
        assert numbers is not None
        _, combined = np.unique(combined * (int(numbers.max(initial=0)) + 1) + numbers, return_inverse=True)
    _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    return [column.take(pa.array(first)) for column in columns], pa.array(inverse)


def _codes(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """A number for each distinct value; None for columns of values with parts, which are all taken for distinct."""
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return None
    if pa.types.is_floating(column.type):
        # Zeros of either sign, and the kinds of NaN, are not the same.
        column = column.view(pa.int64() if column.type == pa.float64() else pa.int32())
    indices: np.ndarray[Any, Any] = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy()
    return indices
