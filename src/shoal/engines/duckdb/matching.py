"""Which rows of data objects meet a condition, by SQL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shoal.engines.duckdb.queries import Group, query_batches
from shoal.engines.sql import build
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.sql.operators import filtered
from shoal.engines.units import Source
from shoal.formats.columns.batches import Rows
from shoal.lang import plan
from shoal.lang.walk import has_aggregate


def matching_rows(source: Source, condition: plan.Expr, funcs: Sequence[plan.Func]) -> Rows | None:
    """The numbers of the rows, ascending; None if the condition has no columnar form."""
    if has_aggregate(condition, funcs):
        return None
    group = Group(0, [source])
    try:
        frame = filtered(group.frame, condition)
    except NotColumnar:
        return None
    if not frame.cases:
        return np.zeros(0, np.int64)
    query = frame.select([("row", build.column("file_row_number"))])
    batches = list(query_batches(query, {0: (group, [source])}))
    rows: Rows = np.sort(pa.Table.from_batches(batches).column("row").to_numpy()) if batches else np.zeros(0, np.int64)
    return rows.astype(np.int64)
