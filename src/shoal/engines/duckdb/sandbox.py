"""Statements of others in DuckDB: on a database of their own, which reads the files of the tables and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from shoal.engines.duckdb.queries import memory_settings, out_of_memory
from shoal.engines.duckdb.views import Views
from shoal.engines.physical import Source
from shoal.engines.stopping import current
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.statements import DIALECT, Statement
from shoal.errors import InvalidInput, StorageFailure

_BATCH_ROWS = 8192
_CONFIG = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_SETTINGS = (
    "SET python_enable_replacements = false",  # else the variables of Python are tables
    "SET TimeZone = 'UTC'",
    "SET arrow_large_buffer_size = false",
)
_OF_THE_MACHINE = ("IO Error", "Out of Memory Error")
_LOCKS = ("SET enable_external_access = false", "SET lock_configuration = true")


def run_statement(
    statement: Statement, tables: Sequence[tuple[TableForm, Sequence[Source]]]
) -> Iterator[pa.RecordBatch]:
    """The rows of a statement over the tables of its uses. An invalid statement fails here, not at the first row."""
    con = duckdb.connect(":memory:", config={**_CONFIG, **memory_settings(current().memory)})
    views = Views(con)
    try:
        with _errors(views), current().cancelling(con.interrupt):
            for setting in _SETTINGS:
                con.execute(setting)
            names = [views.add(*table) for table in tables]
            con.execute("SET allowed_paths = ?", [views.files])
            for lock in _LOCKS:
                con.execute(lock)
            reader = con.sql(statement.sql(DIALECT, names)).to_arrow_reader(_BATCH_ROWS)
    except BaseException:
        _close(con, views)
        raise
    return _batches(con, views, reader)


def _batches(con: duckdb.DuckDBPyConnection, views: Views, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        with _errors(views), current().cancelling(con.interrupt):
            yield from current().checked(reader)
    finally:
        reader.close()
        _close(con, views)


def _close(con: duckdb.DuckDBPyConnection, views: Views) -> None:
    views.close()
    con.close()


@contextmanager
def _errors(views: Views) -> Iterator[None]:
    """What DuckDB says, in one line."""
    stop = current()
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as e:  # while results are fetched, Arrow says it instead
        stop.check()
        if stop.memory is not None and (error := out_of_memory(stop, e)) is not None:
            raise error from None
        if str(e).startswith(_OF_THE_MACHINE):
            raise StorageFailure(f"sql: {_line(e)}") from e
        raise views.failure() or InvalidInput(f"sql: {_line(e)}") from e


def _line(error: Exception) -> str:
    """The message without the position in a text that is not the user's."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())
