"""Reads the inputs of a query: files, bytes, tables, data frames, values. A str is a path, never data.

An item of a list is read like an input of its own if it contains values, such as a path or a table;
any other is one value. Objects of other libraries are recognised by class name, so none has to be loaded.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from shoal.api.options import DEFAULT_READ, ReadOptions, Watch
from shoal.errors import InvalidInput, NotFound
from shoal.formats.detect import read_pieces, read_source
from shoal.formats.streams import Columnar, Place, Source
from shoal.frames.python_values import from_python
from shoal.lazy import lazy
from shoal.model.values import Value
from shoal.sources.inputs import STDIN, is_url
from shoal.sources.reading import read_file, read_file_pieces

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Batch, Piece
    from shoal.frames import arrow_tables, dataframes
else:
    arrow_tables = lazy("shoal.frames.arrow_tables")
    dataframes = lazy("shoal.frames.dataframes")


_FOREIGN: dict[tuple[str, str], Callable[[Any], Iterator[Value]]] = {
    ("pyarrow", "Table"): lambda item: arrow_tables.read_table(item),
    ("pyarrow", "RecordBatch"): lambda item: arrow_tables.read_batch(item),
    ("pyarrow", "RecordBatchReader"): lambda item: arrow_tables.read_batches(item),
    ("pandas", "DataFrame"): lambda item: dataframes.from_pandas(item),
    ("polars", "DataFrame"): lambda item: dataframes.from_polars(item),
    ("polars", "LazyFrame"): lambda item: dataframes.from_lazy_polars(item),
}
"""Readers for objects of other libraries, by package and class name, so that no library has to be loaded."""


class Reading(NamedTuple):
    """How bytes are read."""

    format_name: str
    options: ReadOptions
    in_columns: bool = False
    """Whether to read columns where the format has a columnar reader."""
    watch: Watch | None = None
    """Called with the position in each file, for progress."""

    def file(self, path: str) -> Iterator[Piece]:
        """Read a file."""
        return (read_file_pieces if self.in_columns else read_file)(path, self.format_name, self.options, self.watch)

    def source(self, source: Source, name: str = "") -> Iterator[Piece]:
        """Read an open file, which may have a name."""
        return (read_pieces if self.in_columns else read_source)(source, self.format_name, self.options, Place(name))


def read_input_pieces(
    inputs: Any, format_name: str, options: ReadOptions = DEFAULT_READ, watch: Watch | None = None
) -> Iterator[Piece]:
    """The values of any inputs, in columns where that is faster."""
    threaded = replace(options, threads=os.cpu_count() or 1)
    return _pieces(inputs, Reading(format_name, threaded, in_columns=True, watch=watch))


def read_inputs(inputs: Any, reading: Reading) -> Iterator[Value]:
    """The values of any inputs. A missing file is refused at once, bad data when it is read."""
    return _pieces(inputs, reading)  # type: ignore[return-value] # columns were not asked for


def _pieces(inputs: Any, reading: Reading) -> Iterator[Piece]:
    pieces = _read(inputs, reading)
    if pieces is not None:
        return pieces
    if isinstance(inputs, (Value, dict)):
        return iter((from_python(inputs),))
    if not isinstance(inputs, Iterable):
        kind = type(inputs).__name__
        raise InvalidInput(f"cannot read from an object of type {kind} (give a path, bytes, a table, a list of values)")
    if isinstance(inputs, (list, tuple)):
        for path in (item for item in inputs if isinstance(item, (str, os.PathLike))):
            checked_path(path)
    return _read_each(inputs, reading)


def _read_each(inputs: Iterable[Any], reading: Reading) -> Iterator[Piece]:
    for item in inputs:
        if isinstance(item, Columnar):
            batch = cast("Batch", item)  # the one class that is
            yield from (batch,) if reading.in_columns else batch.values()
            continue
        pieces = None if type(item) is dict or type(item) is Value else _read(item, reading)
        if pieces is None:
            yield from_python(item)
        else:
            yield from pieces


def _read(item: Any, reading: Reading) -> Iterator[Piece] | None:
    """The values that an input contains; None if it is a value itself."""
    if isinstance(item, (str, os.PathLike)):
        return reading.file(checked_path(item))
    if isinstance(item, (bytes, bytearray, memoryview)):
        return reading.source(io.BytesIO(item))
    if hasattr(item, "read") and hasattr(item, "close"):
        return _read_object(item, reading)
    for kind in type(item).__mro__:
        read = _FOREIGN.get((kind.__module__.partition(".")[0], kind.__name__))
        if read is not None:
            return read(item)
    return arrow_tables.read_stream(item) if hasattr(item, "__arrow_c_stream__") else None


def is_frame(data: Any) -> bool:
    """Whether an object is a DataFrame of Spark, by class name, so that nothing has to be loaded."""
    return any(k.__module__.startswith("pyspark.sql.") and k.__name__ == "DataFrame" for k in type(data).__mro__)


def checked_path(path_like: str | os.PathLike[str]) -> str:
    """The path as a str; NotFound if there is nothing to read."""
    path = os.fsdecode(path_like)
    if path == STDIN or is_url(path) or os.path.exists(path):
        return path
    shown = path if len(path) <= 100 and path.isprintable() else f"{path[:40]!r}..."
    raise NotFound(f"{shown}: file does not exist (data is given as bytes, or as a list of values)")


def _read_object(file: Any, reading: Reading) -> Iterator[Piece]:
    """The values of an open file, which stays open."""
    if isinstance(file, io.TextIOBase):
        raise InvalidInput("a file that was opened as text (open it with mode 'rb')")
    source: Any = file if hasattr(file, "seekable") else _Pipe(file)
    name = getattr(file, "name", None)
    return read_named(name if isinstance(name, str) else "", source, reading)


def read_named(name: str, source: Source, reading: Reading) -> Iterator[Piece]:
    """The values of an open file; errors begin with its name, if it has one."""
    try:
        yield from reading.source(source, name)
    except InvalidInput as e:
        raise InvalidInput(f"{name}: {e}") if name else e from e


class _Pipe:
    """An object with `read` and nothing else."""

    def __init__(self, raw: Any) -> None:
        self.read = raw.read

    def seekable(self) -> bool:
        return False
