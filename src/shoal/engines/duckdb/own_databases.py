"""Statements of this process's own user, who may read any file: they run on databases that a thread keeps.

To open a database takes longer than to run a small statement, and so do the views of one with many tables. So a thread
keeps a database, and on it the connections of recent statements with their views. A statement that is asked again
over the same files finds its connection; what it reads is read again.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

import duckdb
import pyarrow as pa

from shoal.engines.duckdb.statement_job import BATCH_ROWS, SETTINGS, Database, Job

MOST_SESSIONS = 32
"""Connections with views that a thread keeps."""
_MOST_SPARE = 4
_SEED = "setseed"
"""A function that changes what the next statement of a connection gets from chance."""


class _Key(NamedTuple):
    """What the state of a connection follows from."""

    views: tuple[str, ...]
    text: str


class _Session(NamedTuple):
    """A connection with views, and a statement that is bound to them."""

    connection: duckdb.DuckDBPyConnection
    statement: duckdb.DuckDBPyRelation


class _Home:
    """The databases of a thread. Other threads may bring back what was taken here."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.database: duckdb.DuckDBPyConnection | None = None
        """Where statements without functions of Python run, each on a connection of its own."""
        self.spare: deque[duckdb.DuckDBPyConnection] = deque(maxlen=_MOST_SPARE)
        """Databases without functions. A function belongs to a database, so two open statements cannot share one."""
        self._sessions: OrderedDict[_Key, _Session] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: _Key) -> _Session | None:
        """A session that nobody else has from here on."""
        with self._lock:
            return self._sessions.pop(key, None)

    def bring(self, key: _Key, session: _Session) -> None:
        """Keep a session for the next statement; the least recently used ones make room."""
        with self._lock:
            replaced = [self._sessions.pop(key)] if key in self._sessions else []
            self._sessions[key] = session
            while len(self._sessions) > MOST_SESSIONS:
                replaced.append(self._sessions.popitem(last=False)[1])
        for each in replaced:
            each.connection.close()


_of_thread = threading.local()


def _home() -> _Home:
    home: _Home | None = getattr(_of_thread, "home", None)
    if home is None or home.process != os.getpid():  # a fork must not use the databases of its parent
        home = _of_thread.home = _Home()
    return home


class OwnDatabase(Database):
    """An execution on a database of this thread."""

    def __init__(self, job: Job) -> None:
        self._home = _home()
        self._key = _key_of(job)
        self._session = None if self._key is None else self._home.take(self._key)
        self._own: duckdb.DuckDBPyConnection | None = None
        self._has_functions = bool(job.conversions)
        self._is_read = False
        super().__init__()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        if self._session is not None:
            return self._session.connection
        home = self._home
        if self._has_functions:
            self._own = home.spare.pop() if home.spare else self._open()
            return self._own.cursor()
        if home.database is None:
            home.database = self._open()
        return home.database.cursor()

    def _open(self) -> duckdb.DuckDBPyConnection:
        database = super()._connect()
        database.execute("SET GLOBAL parquet_metadata_cache = true")
        return database

    def start(self, job: Job, batch_rows: int = BATCH_ROWS) -> None:
        with self._failing():
            if self._session is None:
                self._prepare(job)
                self._session = _Session(self._con, self._con.sql(job.text))
            self._reader = self._session.statement.to_arrow_reader(batch_rows)

    def _prepare(self, job: Job) -> None:
        for setting in SETTINGS:
            self._con.execute(setting)
        self._make_views(job)

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from super().batches()
        self._is_read = True

    def close(self) -> None:
        if self._is_read and self._key is not None and self._session is not None:
            assert self._reader is not None
            self._reader.close()
            self._home.bring(self._key, self._session)
            return
        super().close()
        if self._own is not None:
            self._home.spare.append(self._own)


def _key_of(job: Job) -> _Key | None:
    """By what the session of a job is found again; None if it cannot be kept."""
    if job.conversions or job.tables or _SEED in job.text.lower():
        return None
    return _Key(job.views, job.text)
