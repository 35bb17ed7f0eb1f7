"""The results of a query: computed as they are read, and readable once unless `hold` keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from shoal.api.options import Statistics
from shoal.errors import InvalidInput, Unsupported
from shoal.formats.json.writer import to_json
from shoal.frames.python_values import to_python
from shoal.lazy import lazy
from shoal.model.text import format_value
from shoal.model.values import Value

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pyspark.sql import DataFrame

    from shoal.frames import arrow_tables, dataframes
else:
    arrow_tables = lazy("shoal.frames.arrow_tables")
    dataframes = lazy("shoal.frames.dataframes")


class Results:
    """Values that a query gives.

    Iterating computes them one by one. They can be read once, by iterating or by one of the methods
    `to_...`; after `hold` they can be read again and again.
    """

    def __init__(self, program: str, values: Iterator[Value], statistics: Statistics) -> None:
        self._program = program
        self._values = values
        self._held: list[Value] | None = None
        self._is_read = False
        self._on_spark: Callable[[str], DataFrame] | None = None
        self.statistics = statistics
        """How much was read so far: complete after the last value."""

    def on_spark(self, make: Callable[[str], DataFrame]) -> None:
        """Let Spark compute them in `to_spark`; `make` takes its `times` option."""
        self._on_spark = make

    def through(self, wrap: Callable[[Iterator[Value]], Iterator[Value]]) -> Self:
        """Wrap the stream of values, for counting or limits; returns self."""
        self._values = wrap(self._values)
        return self

    def __iter__(self) -> Iterator[Value]:
        if self._held is not None:
            return iter(self._held)
        if self._is_read:
            raise InvalidInput("these results have been read (to read them again, hold them first: query(...).hold())")
        self._is_read = True
        return self._values

    def __repr__(self) -> str:
        held = None if self._held is None else f"{len(self._held)} held"
        return f"<Results of {self._program!r}: {held or ('read' if self._is_read else 'not read yet')}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop computing and remove temporary files. What is held stays."""
        self._is_read = True
        close = getattr(self._values, "close", None)
        if close is not None:
            close()

    def hold(self) -> Self:
        """Compute all values and keep them."""
        if self._held is None:
            self._held = list(self)
        return self

    def one(self) -> Value:
        """The only value; raises InvalidInput if there is none, or more than one."""
        values = list(islice(self, 2))
        if self._held is None:
            self.close()
        if len(values) != 1:
            many = f"more than one value (the first: {format_value(values[0])})" if values else "no value"
            raise InvalidInput(f"the query {self._program!r} was to give one value but gave {many}")
        return values[0]

    def to_list(self) -> list[Any]:
        """Plain Python objects, of which `shoal.from_python` makes the very same values."""
        return [to_python(value) for value in self]

    to_python = to_list

    def to_json(self) -> str:
        """JSON, a line a value."""
        return "\n".join(map(to_json, self))

    def to_zson(self) -> str:
        """ZSON, a line a value."""
        return "\n".join(map(format_value, self))

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table, from which `query` reads the very same values.

        Records of one shape have a column for each field and no others. If there are several shapes,
        they share the columns of their fields, and a column `$shape` has the exact type of each row.
        Values that are not records are in a column `$value`. A type that Arrow does not have, such as
        ip, is written as what comes near it, with the type in the metadata of the field.
        """
        return arrow_tables.to_table(list(self))

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame of pandas with the columns of `to_arrow`.

        A column is of a type of numpy where that holds it exactly, of Arrow where it does not (ints with
        nulls), and of Python objects, those of `to_list`, where Arrow has no such type either.
        """
        return dataframes.to_pandas(list(self))

    def to_polars(self) -> polars.DataFrame:
        """A DataFrame of polars with the columns of `to_arrow`; what Arrow has no type for are Python objects."""
        return dataframes.to_polars(list(self))

    def to_spark(self, *, times: str = "microseconds") -> DataFrame:
        """A DataFrame of Spark, whose tasks compute the values at each action.

        Its columns are those of `docs/sql.md`. A timestamp of Spark has microseconds: a time with finer digits
        fails, unless `times="integers"` asks for nanoseconds in integers. Where the types of the values do not follow
        from the program, it is run once to know them. Only what a lake is asked can be had in this way.
        """
        if self._on_spark is None:
            raise Unsupported("only what a query of a lake gives can be had on Spark (load it into a pool first)")
        return self._on_spark(times)
