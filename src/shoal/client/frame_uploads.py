"""DataFrames of Spark on their way to a service: rows come to this process part by part, never all at once."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.lazy import lazy
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats.arrow import reader as arrow_reader
else:
    arrow_reader = lazy("shoal.formats.arrow.reader")


def values_of(frame: Any) -> Iterator[Value]:
    """The rows of a DataFrame."""
    pa: Any = import_module("pyarrow")
    for row in frame.mapInArrow(_packed, "part binary").toLocalIterator(prefetchPartitions=True):
        for batch in pa.ipc.open_stream(bytes(row[0])):
            for piece in arrow_reader.batches(batch):
                yield from piece.values()


def _packed(batches: Iterator[Any]) -> Iterator[Any]:
    """What a task does: each batch as bytes."""
    pa: Any = import_module("pyarrow")
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["part"])
