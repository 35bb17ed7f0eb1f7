"""Shapes and columns of just the fields at some paths, which is all that a query looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from shoal.formats.columns.physical import arrow_type
from shoal.model import types as t
from shoal.model.zcode import Data

Paths: TypeAlias = Sequence[tuple[str, ...]]


def inside(paths: Paths, name: str) -> list[tuple[str, ...]]:
    """The paths that go through a field, from there on; none if the field is not used."""
    return [path[1:] for path in paths if path[:1] == (name,)]


def is_whole(shape: t.Type, paths: Paths | None) -> bool:
    """Whether values of a shape are used as a whole; what is not a record always is."""
    return paths is None or () in paths or not isinstance(shape.under, t.Record)


def project_shape(shape: t.Type, paths: Paths | None) -> t.Type:
    """The shape of records with just the fields at some paths. It has no name: it is not the type of any value."""
    under = shape.under
    if paths is None or is_whole(shape, paths):
        return shape
    assert isinstance(under, t.Record)
    kept = [(f, within) for f in under.fields if (within := inside(paths, f.name))]
    return t.record((f.name, project_shape(f.type, within)) for f, within in kept)


def project_column(shape: t.Type, column: pa.Array, paths: Paths | None) -> pa.Array:
    """The column of such records, given that of whole ones."""
    under = shape.under
    if paths is None or is_whole(shape, paths):
        return column
    assert isinstance(under, t.Record)
    columns = [
        project_column(f.type, _field(column, i), within)
        for i, f in enumerate(under.fields)
        if (within := inside(paths, f.name))
    ]
    nulls = column.is_null() if column.null_count else None
    return records_of(project_shape(shape, paths), columns, len(column), nulls)


def project_data(shape: t.Type, data: Data, paths: Paths | None) -> Data:
    """The data of such a record, given that of a whole one."""
    if paths is None or data is None or is_whole(shape, paths):
        return data
    under = shape.under
    assert isinstance(under, t.Record)
    fields = zip(under.fields, data, strict=True)
    return tuple(project_data(f.type, d, within) for f, d in fields if (within := inside(paths, f.name)))


def records_of(shape: t.Type, columns: list[pa.Array], length: int, nulls: pa.Array | None) -> pa.Array:
    """The column of records with these fields."""
    if not columns:
        return pa.array(np.ones(length, bool), mask=None if nulls is None else nulls.to_numpy(zero_copy_only=False))
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(shape)), mask=nulls)


def field_at(shape: t.Type, column: pa.Array, path: tuple[str, ...]) -> pa.Array:
    """The column of a field that the shape has."""
    for name in path:
        under = shape.under
        assert isinstance(under, t.Record)
        column, shape = _field(column, under.index[name]), under.fields[under.index[name]].type
    return column


def _field(column: pa.Array, index: int) -> pa.Array:
    """A field of records; it is null where they are."""
    return column.flatten()[index] if column.null_count else column.field(index)
