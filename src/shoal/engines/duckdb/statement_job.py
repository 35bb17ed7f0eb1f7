"""A statement as a job for DuckDB: everything that it needs, as data, and a database of its own that runs it.

A job runs in this process or in a child process, so it can be pickled, and this module imports little: a child has
nothing but what is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import duckdb
import pyarrow as pa

from shoal.engines.tables.plain import Style, plain_type, to_common
from shoal.errors import InvalidInput
from shoal.formats.columns.physical import arrow_type
from shoal.model import types as t
from shoal.model.node import frozen

ENGINE_ERRORS = (duckdb.Error, pa.ArrowException, OSError)
"""What a query in DuckDB fails with; while results are fetched, Arrow raises it instead."""
BATCH_ROWS = 8192
_CONFIG = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
SETTINGS = (
    "SET python_enable_replacements = false",  # else the variables of Python are tables
    "SET TimeZone = 'UTC'",
    "SET arrow_large_buffer_size = false",
)
_LOCKS = ("SET enable_external_access = false", "SET lock_configuration = true")


@frozen
class Conversion:
    """A function of DuckDB that brings columns of a type into a common type, which are plain.

    Python computes it, a chunk of a column at a time.
    """

    name: str
    type: t.Type
    common: t.Type
    style: Style
    column: str
    """Where the values come from, for messages."""
    parameter: str
    result: str
    """Types by their names in DuckDB."""


@frozen
class Job:
    """A statement, and what it reads."""

    text: str
    views: tuple[str, ...]
    """Statements that define the tables of the text."""
    conversions: tuple[Conversion, ...]
    tables: tuple[tuple[str, pa.Table], ...]
    """Those that the views read, by name."""
    paths: tuple[str, ...]
    """The files that the views read."""
    settings: Mapping[str, str]
    """Those that limit memory and disk."""


class EngineFailure(Exception):
    """An error of DuckDB in its own words, and the error of a conversion, if that is the reason."""

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text, reason)
        self.text, self.reason = text, reason


class Execution(Protocol):
    """Something that runs one job. What DuckDB fails with is raised as EngineFailure."""

    def start(self, job: Job) -> None:
        """Begin. An invalid statement fails here."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""

    def interrupt(self) -> object:
        """Let it fail soon; called from another thread, any number of times."""

    def close(self) -> None:
        """Free what it has."""


class Database:
    """An execution in this process, on a database which reads the files of a job and nothing else."""

    def __init__(self) -> None:
        self._con = self._connect()
        self._failures: list[str] = []
        self._conversions: list[str] = []
        self._reader: pa.RecordBatchReader | None = None
        self.interrupt = self._con.interrupt

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(":memory:", config=_CONFIG)

    @property
    def threads(self) -> int:
        """How many threads run a statement."""
        (row,) = self._con.execute("SELECT current_setting('threads')").fetchall()
        return int(row[0])

    def start(self, job: Job, batch_rows: int = BATCH_ROWS) -> None:
        with self._failing():
            self._prepare(job)
            self._reader = self._con.sql(job.text).to_arrow_reader(batch_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        assert self._reader is not None
        with self._failing():
            yield from self._reader

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        for name in self._conversions:  # else DuckDB keeps them
            self._con.remove_function(name)
        self._con.close()

    def _prepare(self, job: Job) -> None:
        con = self._con
        for setting in SETTINGS:
            con.execute(setting)
        for name, value in job.settings.items():
            con.execute(f"SET {name} = ?", [value])
        self._make_views(job)
        con.execute("SET allowed_paths = ?", [list(job.paths)])
        for lock in _LOCKS:
            con.execute(lock)

    def _make_views(self, job: Job) -> None:
        for conversion in job.conversions:
            self._create(conversion)
        for name, table in job.tables:
            self._con.register(name, table)
        for view in job.views:
            self._con.execute(view)

    def _create(self, conversion: Conversion) -> None:
        typ, common, style = conversion.type, conversion.common, conversion.style
        target_type = plain_type(common, style)
        failures = self._failures  # not self: the connection has the function, and would never be freed

        def convert(values: pa.ChunkedArray) -> pa.ChunkedArray:
            try:
                parts = [to_common(typ, common, _exact(chunk, typ), style) for chunk in values.chunks]
            except InvalidInput as e:
                failures.append(f"column {conversion.column}: {e}")
                raise
            return pa.chunked_array(parts, target_type)

        parameters = [conversion.parameter]
        self._con.create_function(
            conversion.name, convert, parameters, conversion.result, type="arrow", null_handling="special"
        )
        self._conversions.append(conversion.name)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except ENGINE_ERRORS as e:
            raise EngineFailure(str(e), self._failures[0] if self._failures else None) from None


def _exact(values: pa.Array, typ: t.Type) -> pa.Array:
    """A column of DuckDB in the very physical type: its lists, for one, have another name for what they hold."""
    target_type = arrow_type(typ)
    return values if values.type == target_type else values.cast(target_type)
