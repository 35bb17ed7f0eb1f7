"""Fragments over batches, each of which is a table of its own: what a program makes of some of the values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from shoal.engines.duckdb.runner import Compiled
from shoal.engines.interp.engine import run_program
from shoal.engines.interp.environment import Run
from shoal.engines.physical import Scan, Source, Unsuited
from shoal.engines.sql.algebra import Groups
from shoal.engines.sql.nodes import NotColumnar
from shoal.formats.columns.batches import Batch
from shoal.formats.columns.fusion import Fuser
from shoal.formats.columns.layouts import choose_shapes, layout_of
from shoal.formats.columns.physical import arrow_type
from shoal.lang import plan
from shoal.model import types as t
from shoal.model.text import format_type
from shoal.model.values import Value

_MOST_SHAPES, _MOST_COLUMNS = 256, 1000
"""What a layout may have, as in data objects."""
_SCAN = plan.PoolScan("", "")


class BatchFragment:
    """A program in SQL, compiled for the shapes that batches have had so far."""

    def __init__(self, program: plan.Program) -> None:
        """A program of operators that work for some of the values as for all of them."""
        self._program = program
        self._shapes: tuple[t.Type, ...] = ()
        self._compiled: Compiled | None = None
        self._table: pa.Table | None = None

    def results(self, batch: Batch, context: Run) -> Iterator[Value]:
        """What the program makes of a batch; Unsuited if nothing of it has a columnar form."""
        compiled = self._compile({part.shape for part in batch.parts})
        self._table = _table(batch, self._shapes)
        values = compiled.partials(context) if isinstance(compiled.output, Groups) else compiled.run(context)
        rest = self._rest(compiled)
        if not rest:
            return values
        program = plan.Program((plan.DefaultScan(), *rest), self._program.funcs)
        return run_program(program, values, Run(memory=context.memory))

    def _rest(self, compiled: Compiled) -> plan.Seq:
        """The operators that are left to the interpreter; an aggregation among them gives partial results."""
        last = self._program.body[-1]
        return tuple(last if isinstance(op, plan.Summarize) else op for op in compiled.rest)

    def _compile(self, shapes: set[t.Type]) -> Compiled:
        if self._compiled is None or not shapes <= set(self._shapes):
            self._shapes = tuple(sorted({*self._shapes, *shapes}, key=format_type))
            if choose_shapes(self._shapes, _MOST_SHAPES, _MOST_COLUMNS) < len(self._shapes):
                raise Unsuited("many shapes or columns")
            self._compiled = self._compiled_for(self._shapes)
        return self._compiled

    def _compiled_for(self, shapes: tuple[t.Type, ...]) -> Compiled:
        source = Source(0, shapes, (1,) * len(shapes), table=self._current)
        _, *ops = self._program.body
        whole = tuple(_whole(op) for op in ops)
        try:
            compiled = Compiled(Scan(((source,),), ()), _SCAN, whole, self._program.funcs, is_split=True)
        except NotColumnar as e:
            raise Unsuited(str(e)) from None
        if compiled.rest == whole:
            raise Unsuited("no columnar form")
        return compiled

    def _current(self) -> pa.Table:
        assert self._table is not None
        return self._table


def _whole(op: plan.Op) -> plan.Op:
    """An aggregation as a fragment takes it: that results are partial goes without saying there."""
    return plan.Summarize(op.aggs, op.keys, op.limit) if isinstance(op, plan.Summarize) else op


def _table(batch: Batch, shapes: tuple[t.Type, ...]) -> pa.Table:
    """A batch as a table in the layout of some shapes, which have those of the batch among them."""
    parts = {part.shape: part for part in batch.parts}
    columns = [
        pa.chunked_array([parts[shape].column if shape in parts else pa.array([], arrow_type(shape))])
        for shape in shapes
    ]
    order = np.empty(batch.length, np.int64)
    order[np.concatenate([parts[shape].rows for shape in shapes if shape in parts])] = np.arange(batch.length)
    return Fuser(layout_of(shapes), columns).table(order)
