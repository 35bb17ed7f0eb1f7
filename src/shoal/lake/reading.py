"""The values of a data object, whatever its form. Readers of columns are loaded when there are columns to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shoal.lake import row_form
from shoal.lake.keys import EVERYTHING, KeyRange, SortKey
from shoal.lake.objects import DataObject, Form
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.values import Value
from shoal.storage.store import ObjectStore

if TYPE_CHECKING:
    from shoal.lake import column_form
else:
    column_form = lazy("shoal.lake.column_form")


def read_object(
    store: ObjectStore, pool: str, key: SortKey, o: DataObject, wanted: KeyRange = EVERYTHING
) -> Iterator[Value]:
    """The values of an object, in its order: those of the parts that may hold something in the range."""
    read = row_form.read if o.form is Form.ROWS else column_form.read
    return read(store, pool, key, o, wanted)


def object_shapes(store: ObjectStore, pool: str, key: SortKey, o: DataObject) -> Iterable[tuple[t.Type, int]]:
    """How many values of which types are in an object: from what its commit says, or by counting."""
    if o.shapes is not None:
        return [(shape, count) for shape, count in o.shapes if count]
    return Counter(value.type for value in read_object(store, pool, key, o)).items()
