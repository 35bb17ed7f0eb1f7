"""`spark.read.format("shoal")` where Spark can read the files of a pool by itself (`spark_scans`).

A source that is written in Python is a class that Spark calls; it has no way to return a DataFrame. So the reader of
pyspark, asked for the format `shoal`, becomes one of this module. What it cannot do it leaves to the source, with the
same options. Importing this module imports pyspark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.types import StructType

from shoal.api.commitish import parse_head
from shoal.engines.stopping import running_on
from shoal.lake.lake import open_at
from shoal.planner.catalog import LakeCatalog
from shoal.planner.reach import require_lake
from shoal.planner.scan_sources import commit_of
from shoal.planner.scan_units import PoolTable
from shoal.planner.spark_plan import style_of
from shoal.planner.spark_scans import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = "shoal"
_OPTIONS = frozenset(("lake", "path", "at", "commit", "times"))
"""Those that a scan by Spark itself can take; with any other, the source reads."""
Scan: TypeAlias = "Callable[[SparkSession, PoolTable], DataFrame | None]"
"""A scan of a pool by Spark itself; None if it cannot."""
_of_spark = DataFrameReader.format


def install(scan: Scan) -> None:
    """Let the readers of this process know the format."""

    def choose(reader: DataFrameReader, source: str) -> DataFrameReader:
        chosen = _of_spark(reader, source)
        return PoolReader(chosen, scan) if source == _NAME and type(reader) is DataFrameReader else chosen

    DataFrameReader.format = choose


class PoolReader(DataFrameReader):  # type: ignore[misc]
    """Reads pools."""

    def __init__(self, reader: DataFrameReader, scan: Scan) -> None:
        self._jreader, self._spark, self._scan = reader._jreader, reader._spark, scan
        self._given: dict[str, str] = {}
        self._columns: StructType | None = None
        self._is_other = False

    def format(self, source: str) -> DataFrameReader:
        self._is_other = source != _NAME
        return super().format(source)

    def schema(self, schema: Any) -> DataFrameReader:
        super().schema(schema)
        self._columns = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        return self

    def option(self, key: str, value: Any) -> DataFrameReader:
        self._given[key.lower()] = str(value)
        return super().option(key, value)

    def options(self, **options: Any) -> DataFrameReader:
        for key, value in options.items():
            self.option(key, value)
        return self

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:  # noqa: A002 - pyspark's name
        self.options(**options)
        if schema is not None:
            self.schema(schema)
        is_plain = format in (None, _NAME) and not self._is_other
        name = path if isinstance(path, str) else None if path else self._given.get("path")
        if is_plain and name and "lake" in self._given and self._given.keys() <= _OPTIONS:
            frame = self._scan(self._spark, self._table(self._given["lake"], name))
            if frame is not None and (chosen := _chosen(frame, self._columns)) is not None:
                return chosen
        return super().load(path, format)

    def _table(self, uri: str, name: str) -> PoolTable:
        """The pool that is read, at the commit that its branch is at now."""
        given, (pool, commitish) = self._given, parse_head(name)
        style = style_of(given.get("times", "microseconds"))
        with running_on(self._spark):
            require_lake(uri)
        lake = open_at(uri)
        catalog = LakeCatalog(lake)
        commit = catalog.commit(catalog.pool(pool), given.get("at") or given.get("commit") or commitish)
        return PoolTable(lake.pool(pool), commit_of(commit), style)


def _chosen(frame: DataFrame, columns: StructType | None) -> DataFrame | None:
    """Some columns of a DataFrame; None if it does not have them, of these types."""
    if columns is None:
        return frame
    types = {f.name: f.dataType for f in frame.schema.fields}
    if any(types.get(f.name) != f.dataType for f in columns.fields):
        return None
    return frame.select(*(quoted((f.name,)) for f in columns.fields))
