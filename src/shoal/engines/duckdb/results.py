"""Exact values out of the columns that SQL returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.aggregates import Outcome
from shoal.engines.interp.aggregates.numeric import MEAN, partial_number
from shoal.engines.interp.operators.records import nested_record
from shoal.engines.sql.aggregation import GROUP, Result, Summary
from shoal.engines.sql.relations import Flat
from shoal.formats.columns.fusion import to_batch
from shoal.formats.columns.layouts import SHAPE, Leaf, Struct
from shoal.formats.columns.physical import arrow_type
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.values import NULL, Value


class FlatColumns:
    """The columns of a flat relation: where leaves and structs are."""

    def __init__(self, batch: pa.RecordBatch, flat: Flat) -> None:
        self._batch = batch
        self._flat = flat

    def shapes(self) -> pa.Array:
        """The code of each row."""
        if SHAPE in self._batch.schema.names:
            return self._batch.column(SHAPE)
        return pa.array(np.zeros(self._batch.num_rows, np.int32))

    def leaf(self, leaf: Leaf) -> pa.Array:
        """The column of a leaf, in its physical type."""
        column, target_type = self._batch.column(f"c{leaf.index}"), arrow_type(leaf.type)
        if column.type == target_type:
            return column
        return pa.nulls(len(column), target_type) if column.null_count == len(column) else column.cast(target_type)

    def nulls(self, struct: Struct) -> pa.Array | None:
        """Which rows have no such struct; None if all have it that should."""
        if self._flat.structs[struct.index] is None:
            return None
        return pc.invert(self._batch.column(f"v{struct.index}").fill_null(False))


def decode_rows(batch: pa.RecordBatch, flat: Flat) -> Iterator[Value]:
    """The rows of a batch."""
    return to_batch(flat.layout, FlatColumns(batch, flat)).values()


def decode_groups(batch: pa.RecordBatch, summary: Summary, op: plan.Summarize) -> Iterator[Value]:
    """The groups of a batch, as partial results."""
    if not batch.num_rows:
        return
    keys = list(decode_rows(batch, summary.keys))
    many = len(summary.combinations) > 1
    codes: Sequence[int] = batch.column(GROUP).to_pylist() if many else [0] * len(keys)
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name.startswith("r")}
    paths = [path for path, _ in op.keys] + [path for path, _ in op.aggs]
    is_flat = all(len(path) == 1 for path in paths)
    names = [path[0] for path in paths]
    for row, (key, code) in enumerate(zip(keys, codes, strict=True)):
        partials = [_partial(result, columns, row) for result in summary.combinations[code].results]
        fields = [*fields_of(key), *partials]
        if is_flat:
            yield Value(t.record_of(tuple(names), tuple(v.type for v in fields)), tuple(v.data for v in fields))
        else:
            yield nested_record(list(zip(paths, fields, strict=True)))


def fields_of(value: Value) -> list[Value]:
    """The fields of a record."""
    under = value.type.under
    assert isinstance(under, t.Record)
    return [Value(f.type, data) for f, data in zip(under.fields, value.data, strict=True)]


def _partial(result: Result, columns: dict[str, list[Any]], row: int) -> Value:
    """The partial result of one aggregate; without columns, of one that was fed nothing."""
    cells = [columns[name][row] for name in result.columns]
    match result.outcome:
        case Outcome.COUNT:
            return Value(t.UINT64, cells[0] if cells else 0)
        case Outcome.MEAN:
            total, count = cells or (0.0, 0)
            return Value(MEAN, (total or 0.0, count))
        case Outcome.BOOL:
            return Value(t.BOOL, cells[0] if cells else None)
        case Outcome.NUMBER:
            is_fed = cells and (not result.consumed or columns[result.consumed][row])
            return partial_number(Value(result.type, cells[0]) if is_fed else NULL)
    assert_never(result.outcome)
