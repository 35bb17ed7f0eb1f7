"""Statements in child processes: what `fork_server` does, seen from the process that asks for it."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock

import pyarrow as pa

from shoal.engines.duckdb import fork_server
from shoal.engines.duckdb.channels import Channel, Kind
from shoal.engines.duckdb.statement_job import EngineFailure, Job
from shoal.engines.stopping import REMEDY, current
from shoal.errors import Stopped, StorageFailure

_ENVIRONMENT = {
    # Libraries that start threads when they are imported make it unsafe to fork.
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    # The limit counts what is mapped: nothing is mapped in advance, and what is freed is unmapped.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "DUCKDB_JE_MALLOC_CONF": "retain:false",
}
_PATIENCE = 5.0
"""Seconds that a process may take to end once it is killed."""


class Child:
    """An execution in a child process. It ends with the lifeline."""

    def __init__(self, channel: Channel, lifeline: socket.socket) -> None:
        self._channel, self._lifeline = channel, lifeline
        self._spill: str | None = None
        self._is_running = False

    @property
    def is_alive(self) -> bool:
        """Whether it waits for a job."""
        return self._channel.is_open

    def start(self, job: Job) -> None:
        self._spill, self._is_running = job.settings.get("temp_directory"), True
        with suppress(ConnectionError):  # it says why, or it is gone
            self._channel.send(Kind.JOB, pickle.dumps((job, current().memory)))
        self._next()

    def batches(self) -> Iterator[pa.RecordBatch]:
        while (data := self._next()) is not None:
            yield pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()

    def interrupt(self) -> None:
        self._lifeline.close()

    def close(self) -> None:
        self._lifeline.close()
        if self._is_running:
            with suppress(OSError):
                self._channel.wait_for_end(_PATIENCE)
        self._channel.close()
        if self._spill is not None:  # a process that does not end by itself leaves its files
            shutil.rmtree(self._spill, ignore_errors=True)

    def _next(self) -> bytearray | None:
        """The next rows; None after the last ones."""
        stop = current()
        try:
            kind, data = self._channel.receive()
        except EOFError:
            stop.check()
            raise Stopped(f"the process of the statement died, most likely for want of memory ({REMEDY})") from None
        match kind:
            case Kind.FAILED:
                raise EngineFailure(*json.loads(data))
            case Kind.OUT_OF_MEMORY:
                raise stop.out_of_memory()
            case Kind.TOO_LARGE:
                raise stop.too_large((stop.memory or 0) // fork_server.SHARES)
        self._is_running = kind is not Kind.END
        return data if self._is_running else None


class Server:
    """The fork server of this process. It starts when it is first needed, and again if it has ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._spare: Child | None = None

    def child(self) -> Child:
        """A child that has no job yet. The next one is forked at once, since it takes a while to open a database."""
        with self._lock:
            child, self._spare = self._waiting(), None
            self._waiting()
            return child

    def prepare(self) -> None:
        """Start the server and a first child."""
        with self._lock:
            self._waiting()

    def _waiting(self) -> Child:
        control = self._open()
        if self._spare is not None and not self._spare.is_alive:
            self._spare.close()
            self._spare = None
        if self._spare is None:
            self._spare = _forked(control)
        return self._spare

    def close(self) -> None:
        """End the server and, with it, its children."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.wait()
        if self._spare is not None:
            self._spare.close()
        self._control = self._process = self._spare = None

    def _open(self) -> socket.socket:
        if self._process is not None and self._process.poll() is not None:
            self._close()  # it died
        if self._control is None:
            self._control, self._process = _started()
        return self._control


def _started() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A fork server and the socket that controls it. It imports from where this process does, and nowhere else."""
    control, other = socket.socketpair()
    path = os.pathsep.join(filter(None, sys.path))
    try:
        with other:
            return control, subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", fork_server.__name__],
                env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C ends this process, and its end that of the server
            )
    except OSError as e:
        control.close()
        raise StorageFailure(f"sql: cannot start a process for statements: {e.strerror}") from None


def _forked(control: socket.socket) -> Child:
    channel, other_channel = socket.socketpair()
    lifeline, other_lifeline = socket.socketpair()
    with other_channel, other_lifeline:
        try:
            socket.send_fds(control, [b"f"], [other_channel.fileno(), other_lifeline.fileno()])
        except OSError as e:
            channel.close()
            lifeline.close()
            raise StorageFailure(f"sql: cannot start a process for a statement: {e.strerror}") from None
    return Child(Channel(channel), lifeline)


SERVER = Server()
atexit.register(SERVER.close)
