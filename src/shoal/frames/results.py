"""The results of a query: computed as they are read, and readable once unless `hold` keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeVar

from shoal.api.handles import public_names
from shoal.api.options import Statistics
from shoal.errors import InvalidInput, ShoalError, Unsupported
from shoal.formats.json.writer import to_json
from shoal.frames.python_values import to_python
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pyspark.sql import DataFrame

    from shoal.formats.columns.batches import Piece
    from shoal.frames import arrow_tables, dataframes, plain_tables
else:
    arrow_tables = lazy("shoal.frames.arrow_tables")
    dataframes = lazy("shoal.frames.dataframes")
    plain_tables = lazy("shoal.frames.plain_tables")


def _one_by_one(pieces: Iterator[Piece]) -> Iterator[Value]:
    for piece in pieces:
        yield from (piece,) if isinstance(piece, Value) else piece.values()


V = TypeVar("V")


def _close(values: Iterator[Any]) -> None:
    """Stop computing values, if they can be stopped."""
    close = getattr(values, "close", None)
    if close is not None:
        close()


class Endless(Iterator[V]):
    """Values that another thread may close while somebody waits for the next one: then there are no more."""

    def __init__(self, values: Iterator[V], interrupt: Callable[[], None]) -> None:
        """`interrupt` lets a wait for the next value end, with an error of ours."""
        self._values = values
        self._interrupt = interrupt
        self._is_closed = False
        self._lock = Lock()
        """Held while a value is computed: a generator cannot be closed then."""

    def __next__(self) -> V:
        with self._lock:
            try:
                if not self._is_closed:
                    value = next(self._values)
                    if not self._is_closed:
                        return value
            except ShoalError:
                if not self._is_closed:
                    raise
            _close(self._values)
        raise StopIteration

    def close(self) -> None:
        """Stop here. A thread that waits for the next value is told that there are no more, and closes what is open."""
        self._is_closed = True
        self._interrupt()
        if self._lock.acquire(blocking=False):
            try:
                _close(self._values)
            finally:
                self._lock.release()


class Results:
    """The values that a query returns.

    Iteration computes them one by one. They can be read once, by iteration or by one of the `to_...` methods; after
    `hold` they can be read any number of times.
    """

    def __init__(
        self,
        program: str,
        values: Iterator[Piece],
        statistics: Statistics,
        *,
        in_pieces: bool = False,
        shape: t.Type | None = None,
    ) -> None:
        """`in_pieces` says that some of the values come in columns; `shape` is what they are, if there are none."""
        self._program = program
        self._shape = shape
        self._pieces = values if in_pieces else None
        """The values with their columns, as long as nobody asked for them one by one."""
        self._values: Iterator[Value] = _one_by_one(values) if in_pieces else values  # type: ignore[assignment]
        self._kept: list[Value] | None = None
        self._is_read = False
        self._on_spark: Callable[[str], DataFrame] | None = None
        self.statistics = statistics
        """Counts of what was read so far; complete after the last value."""

    def on_spark(self, make: Callable[[str], DataFrame]) -> None:
        """Let Spark compute the values in `to_spark`; `make` takes its `times` option."""
        self._on_spark = make

    def through(self, wrap: Callable[[Iterator[Any]], Iterator[Any]]) -> Self:
        """Wrap the stream of values, or of pieces, for counting or limits; returns self."""
        if self._pieces is None:
            self._values = wrap(self._values)
        else:
            self._pieces = wrap(self._pieces)
            self._values = _one_by_one(self._pieces)
        return self

    def __iter__(self) -> Iterator[Value]:
        if self._kept is not None:
            return iter(self._kept)
        if self._is_read:
            raise InvalidInput(
                "these results have been read already (to read them twice, keep them: query(...).hold())"
            )
        self._is_read = True
        return self._values

    def __repr__(self) -> str:
        kept = None if self._kept is None else f"{len(self._kept)} held"
        return f"<Results of {self._program!r}: {kept or ('read' if self._is_read else 'not read yet')}>"

    def __dir__(self) -> list[str]:
        return public_names(Results, ("statistics",), without=("on_spark", "through", "pieces"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop computing and remove temporary files. Values kept by `hold` stay."""
        self._is_read = True
        _close(self._pieces or self._values)

    def hold(self) -> Self:
        """Compute all values and keep them."""
        if self._kept is None:
            self._kept = list(self)
        return self

    def one(self) -> Value:
        """The only value; raises InvalidInput if there is none, or more than one."""
        values = list(islice(self, 2))
        if self._kept is None:
            self.close()
        if len(values) != 1:
            many = f"more than one value (the first: {format_value(values[0])})" if values else "no value"
            raise InvalidInput(f"the query {self._program!r} should return one value but returned {many}")
        return values[0]

    def to_list(self) -> list[Any]:
        """Plain Python objects, which `shoal.from_python` converts back to equal values."""
        return [to_python(value) for value in self]

    to_python = to_list

    def to_json(self) -> str:
        """JSON, one line per value."""
        return "\n".join(map(to_json, self))

    def to_zson(self) -> str:
        """ZSON, one line per value."""
        return "\n".join(map(format_value, self))

    def to_arrow(self, *, exact: bool = False) -> pyarrow.Table:
        """An Arrow table with a column for each field, of the common type of what is in it (see `docs/sql.md`).

        An exact table is one from which `query` reads equal values. Records of one shape have a column for each field
        and no others. Several shapes share the columns of their fields, and a column `$shape` has the exact type of
        each row. Values that are not records are in a column `$value`. A type that Arrow lacks, such as ip, is written
        as a similar type, with the Zed type in the metadata of the field.
        """
        return arrow_tables.to_table(list(self)) if exact else plain_tables.to_table(self.pieces(), self._shape)

    def to_batches(self, rows: int = 10_000) -> Iterator[pyarrow.RecordBatch]:
        """Arrow record batches of up to `rows` rows, as they are computed.

        Each has the columns of `to_arrow` for what is in it, so the columns of two may differ.
        """
        return plain_tables.to_batches(self.pieces(), rows)

    def to_pandas(self, *, exact: bool = False) -> pandas.DataFrame:
        """A pandas DataFrame with the columns of `to_arrow`.

        Integers with nulls, and types that numpy lacks, have columns of Arrow types. In an exact frame a column may
        also have the Python objects of `to_list`.
        """
        return dataframes.to_pandas(list(self)) if exact else plain_tables.to_pandas(self.pieces())

    def to_polars(self, *, exact: bool = False) -> polars.DataFrame:
        """A polars DataFrame with the columns of `to_arrow`; in an exact one, types that Arrow lacks are objects."""
        return dataframes.to_polars(list(self)) if exact else plain_tables.to_polars(self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """The values, in columns as far as they come so. They are read once, as by iteration."""
        pieces, values = self._pieces, iter(self)
        return values if pieces is None or self._kept is not None else pieces

    def to_spark(self, *, times: str = "microseconds") -> DataFrame:
        """A Spark DataFrame, whose tasks compute the values at each action.

        Its columns are described in `docs/sql.md`. A Spark timestamp has microseconds: a time with more digits fails,
        unless `times="integers"` asks for nanoseconds as integers. If the types of the values do not follow from the
        program, it runs once to find them. Only queries of a lake can run on Spark.
        """
        if self._on_spark is None:
            raise Unsupported("only queries of a lake can run on Spark (load the data into a pool first)")
        return self._on_spark(times)
