"""Statements of others in DuckDB: on a database of their own, which reads the files of the tables and nothing else.

A statement with a memory limit runs in a child process, see `fork_server`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from shoal.engines.duckdb.child_processes import SERVER
from shoal.engines.duckdb.own_databases import OwnDatabase
from shoal.engines.duckdb.queries import memory_settings, out_of_memory
from shoal.engines.duckdb.statement_job import ENGINE_ERRORS, Database, EngineFailure, Execution, Job
from shoal.engines.duckdb.views import Views
from shoal.engines.file_damage import damage_to, require_unchanged, unless_changed, without_paths
from shoal.engines.physical import Source
from shoal.engines.stopping import current
from shoal.engines.tables.forms import TableForm
from shoal.engines.tables.statements import DIALECT, Statement
from shoal.errors import InvalidInput, ShoalError, StorageFailure
from shoal.storage.verified_files import VerifiedFile
from shoal.suggestions import did_you_mean

_OF_TEXTS = ("Binder Error: No function matches", "Conversion Error: Could not convert string")
"""What DuckDB says of a text that a statement takes for a number."""
_OF_THE_MACHINE = ("IO Error", "Out of Memory Error")
_OF_THE_STATEMENT = (
    "Parser Error", "Syntax Error", "Binder Error", "Catalog Error", "Conversion Error", "Out of Range Error",
    "Permission Error",
)  # fmt: skip
"""Errors that a statement has over files of any content: to read all of them again would only delay the message."""


class TableQuery:
    """A statement over the tables of its uses. It can run any number of times, in several threads at once.

    What follows from the statement and the tables alone is kept for the next run: the texts of the views and of the
    statement. Files are verified for each run.
    """

    def __init__(self, statement: Statement, tables: Sequence[tuple[TableForm, Sequence[Source]]]) -> None:
        self._statement = statement
        self._tables = tables
        self._known: tuple[Views, str] | None = None

    def run(self, is_trusted: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows. An invalid statement fails here, not at the first row.

        A trusted one comes from the user of this process, who may read any file.
        """
        statement, forms = self._statement, [form for form, _ in self._tables]
        try:
            rows = self._started(statement.columns, is_trusted)
        except InvalidInput as e:
            explained = _explained(e, statement, forms)
            if statement.columns is None or explained is not e:
                raise explained from None
            rows = self._started(None, is_trusted)  # an unknown column: let the message list all of them
        return _with_reasons(rows, statement, forms)

    def _started(self, columns: frozenset[str] | None, is_trusted: bool) -> Iterator[pa.RecordBatch]:
        views, text = self._again(columns) or self._compiled(columns)
        with _errors(views.files):
            job = views.job(text, memory_settings(current().memory))
            execution = _execution(job, is_trusted)
        try:
            with _errors(views.files), current().cancelling(execution.interrupt):
                execution.start(job)
        except BaseException:
            execution.close()
            raise
        if columns == self._statement.columns:
            self._known = views, text
        return _batches(execution, views.files)

    def _again(self, columns: frozenset[str] | None) -> tuple[Views, str] | None:
        """What the last run had, if this one needs the same."""
        known = self._known
        if known is None or columns != self._statement.columns:
            return None
        with _errors(known[0].files):
            views = known[0].again()
        return None if views is None else (views, known[1])

    def _compiled(self, columns: frozenset[str] | None) -> tuple[Views, str]:
        views, statement = Views(), self._statement
        forms = [form.for_statement(columns, statement.companions, statement.wholes) for form, _ in self._tables]
        with _errors(views.files):
            names = [views.add(form, sources) for form, (_, sources) in zip(forms, self._tables, strict=True)]
            return views, statement.sql(DIALECT, names, [form.hidden for form in forms])


def _execution(job: Job, is_trusted: bool) -> Execution:
    if current().memory is not None:
        return SERVER.child()
    return OwnDatabase(job) if is_trusted else Database()


def _with_reasons(
    rows: Iterator[pa.RecordBatch], statement: Statement, forms: Sequence[TableForm]
) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows
    except InvalidInput as e:
        raise _explained(e, statement, forms) from None


def _explained(error: InvalidInput, statement: Statement, forms: Sequence[TableForm]) -> InvalidInput:
    """The error, with the reason if a column is text that was taken for numbers."""
    if not any(words in str(error) for words in _OF_TEXTS):
        return error
    reason = next((why for form in forms if (why := form.why_text(statement.names))), "")
    return InvalidInput(str(error).replace("sql: ", f"sql: {reason}", 1)) if reason else error


def _batches(execution: Execution, files: Sequence[VerifiedFile]) -> Iterator[pa.RecordBatch]:
    try:
        with _errors(files), current().cancelling(execution.interrupt):
            yield from unless_changed(files, current().checked(execution.batches()))
    finally:
        execution.close()


@contextmanager
def _errors(files: Sequence[VerifiedFile]) -> Iterator[None]:
    """What DuckDB says, in one line; damage to a file, if that is the reason."""
    try:
        yield
    except EngineFailure as e:
        current().check()
        raise _failure(e.text, e.reason, files) from None
    except ENGINE_ERRORS as e:
        current().check()
        raise _failure(str(e), None, files) from None


_NO_COLUMN = re.compile(
    r'Binder Error: (?:Referenced column|(?:Table|Values list) ".*?" does not have a column named) "(?P<name>.*?)"'
    r"(?: not found in FROM clause!)?(?:\s*Candidate bindings:(?P<names>.*))?",
    re.DOTALL,
)


def _in_plain_words(line: str) -> str:
    """What DuckDB says, without its own words for a name that is not the name of a column."""
    match = _NO_COLUMN.fullmatch(line)
    if match is None:
        return line
    name, names = match["name"], re.findall(r'"([^"]+)"', match["names"] or "")
    return f'no column is named "{name}"{did_you_mean(name, names) or " (describe POOL lists the columns)"}'


def _failure(text: str, reason: str | None, files: Sequence[VerifiedFile]) -> ShoalError:
    stop = current()
    if text.startswith(_OF_THE_STATEMENT):
        require_unchanged(files)
    elif (damage := damage_to(files)) is not None:
        return damage
    # The rest of the message is a position in a text that is not the user's.
    line = _in_plain_words(without_paths(text.partition("\n\nLINE ")[0], files))
    if text.startswith(_OF_THE_MACHINE):
        limit = out_of_memory(stop, text) if stop.memory is not None else None
        return limit or StorageFailure(f"sql: {line}")
    return InvalidInput(reason or f"sql: {line}")
