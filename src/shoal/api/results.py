"""The results of a query, as a protocol; `shoal.frames.results` implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self

from shoal.api.options import Statistics
from shoal.model.values import Value

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pyspark.sql import DataFrame


class Results(Protocol):
    """The values of a query, computed as they are read. They can be read once, unless `hold` keeps them."""

    statistics: Statistics
    """Counts of what was read so far; complete after the last value."""

    def __iter__(self) -> Iterator[Value]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *failure: object) -> None: ...

    def through(self, wrap: Callable[[Iterator[Any]], Iterator[Any]]) -> Self:
        """Wrap the stream of values, or of pieces, for counting or limits; returns self."""

    def pieces(self) -> Iterator[Any]:
        """The values, in batches of columns (`formats.columns`) as far as they come so. Read once, as by iteration."""

    def close(self) -> None:
        """Stop computing and remove temporary files. Values kept by `hold` stay."""

    def hold(self) -> Self:
        """Compute all values and keep them."""

    def one(self) -> Value:
        """The only value; InvalidInput if there is none, or more than one."""

    def to_list(self) -> list[Any]:
        """Plain Python objects, which `shoal.from_python` converts back to equal values."""

    def to_python(self) -> list[Any]:
        """Same as `to_list`."""

    def to_json(self) -> str:
        """JSON, a line per value."""

    def to_zson(self) -> str:
        """ZSON, a line per value."""

    def to_arrow(self, *, exact: bool = False) -> pyarrow.Table:
        """An Arrow table; an exact one keeps the exact type of each value."""

    def to_batches(self, rows: int = 10_000) -> Iterator[pyarrow.RecordBatch]:
        """Arrow record batches of up to `rows` rows, each with the columns of what is in it."""

    def to_pandas(self, *, exact: bool = False) -> pandas.DataFrame:
        """A pandas DataFrame with the columns of `to_arrow`."""

    def to_polars(self, *, exact: bool = False) -> polars.DataFrame:
        """A Polars DataFrame with the columns of `to_arrow`."""

    def to_spark(self, *, times: str = "microseconds") -> DataFrame:
        """A Spark DataFrame, whose tasks compute the values at each action."""
