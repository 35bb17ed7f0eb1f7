"""Values as a table in the layout of their shapes, as engines read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from shoal.formats.columns.batches import batch_of
from shoal.formats.columns.fusion import Fuser
from shoal.formats.columns.layouts import layout_of
from shoal.formats.columns.physical import arrow_type
from shoal.formats.columns.projection import Paths, project_data, project_shape
from shoal.model import types as t
from shoal.model.values import Value


def as_table(rows: Iterable[Value], shapes: Sequence[t.Type], paths: Paths | None) -> pa.Table:
    """Values as a table in the layout of some shapes; with just the fields at some paths, if given."""
    values = [Value(project_shape(row.type, paths), project_data(row.type, row.data, paths)) for row in rows]
    batch = batch_of(values)
    layout = layout_of(tuple(dict.fromkeys(project_shape(shape, paths) for shape in shapes)))
    by_shape = {part.shape: part for part in batch.parts}
    parts = [by_shape.get(shape) for shape in layout.shapes]
    order = np.empty(len(values), np.int64)
    order[np.concatenate([part.rows for part in parts if part is not None])] = np.arange(len(values))
    columns = [
        pa.chunked_array([pa.array([], arrow_type(shape)) if part is None else part.column])
        for shape, part in zip(layout.shapes, parts, strict=True)
    ]
    return Fuser(layout, columns).table(order)
