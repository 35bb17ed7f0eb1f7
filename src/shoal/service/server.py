"""Runs a service until a signal ends it."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from shoal.errors import ShoalError, StorageFailure
from shoal.lazy import lazy, load
from shoal.local.manage import Level, Policy, monitor
from shoal.service.app import make_app
from shoal.service.auth.settings import is_loopback
from shoal.service.connections import Connection, cut_stalled
from shoal.service.responses import Cut
from shoal.service.state import Service

if TYPE_CHECKING:
    from shoal.engines.duckdb import child_processes, queries, runner, sandbox
    from shoal.engines.spark import session
    from shoal.engines.tables import answers
    from shoal.formats.json import column_reader as json_column_reader
    from shoal.planner import scan_units, spark_dataframes
else:
    child_processes = lazy("shoal.engines.duckdb.child_processes")
    queries = lazy("shoal.engines.duckdb.queries")
    runner = lazy("shoal.engines.duckdb.runner")
    sandbox = lazy("shoal.engines.duckdb.sandbox")
    answers = lazy("shoal.engines.tables.answers")
    session = lazy("shoal.engines.spark.session")
    json_column_reader = lazy("shoal.formats.json.column_reader")
    scan_units = lazy("shoal.planner.scan_units")
    spark_dataframes = lazy("shoal.planner.spark_dataframes")


_BACKLOG = 2048
_GRACE_SECONDS = 10
_IDLE_SECONDS = 75
_WATCH_SECONDS = 1
_SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter while others want it. Queries are threads that compute; each of the few steps
of the event loop waits for as many of these intervals as there are queries."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how to listen."""

    host: str
    port: int
    port_file: Path | None = None
    certificate: str | None = None
    key: str | None = None
    parent: int | None = None
    """A file descriptor that ends with the process that started this one."""
    with_spark: bool = False
    """Whether to start Spark along with the service, and not with the first query that needs it."""
    manage_every: float | None = None
    """Seconds between two rounds of maintenance; None: no maintenance."""


def serve(service: Service, how: Listening) -> None:
    """Answer requests until a signal comes."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    listener = _bind(how)
    config = uvicorn.Config(
        make_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        http=Connection,
        ws="none",
        lifespan="on",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        callback_notify=lambda: _cut_stalled(service, server),
        timeout_notify=_WATCH_SECONDS,
        ssl_certfile=how.certificate,
        ssl_keyfile=how.key,
    )
    server = uvicorn.Server(config)
    with _logged(service), listener, _managed(service, how), _ending_with(how, server):
        port = listener.getsockname()[1]
        service.log("info", "listening", addr=f"{how.host}:{port}", lake=service.lake.uri)
        if how.certificate is None and not is_loopback(how.host):
            service.log("warn", "tokens and data travel in the clear (use -tls.cert and -tls.key, or a proxy)")
        if how.port_file is not None:
            _write_whole(how.port_file, str(port))
        warm_up(service, how.with_spark)
        server.run([listener])
    service.log("info", "ended")


async def _cut_stalled(service: Service, server: uvicorn.Server) -> None:
    """Cut off clients that read nothing of what is sent to them."""
    count = cut_stalled(server.server_state.connections, time.monotonic(), service.settings.limits.stall)
    if count:
        service.log("warn", "connections cut: their clients did not read", count=count)


class _Forwarded(logging.Handler):
    """Writes what libraries log to the log of the service: warnings and errors, one JSON object each."""

    def __init__(self, service: Service) -> None:
        super().__init__(logging.WARNING)
        self._log = service.log

    def emit(self, record: logging.LogRecord) -> None:
        error = None if record.exc_info is None else record.exc_info[1]
        if isinstance(error, Cut):  # how an answer ends that cannot go on; the cause was logged then
            return
        level: Level = "error" if record.levelno >= logging.ERROR else "warn"
        details = {} if error is None else {"error": repr(error)}
        self._log(level, record.getMessage().strip(), logger=record.name, **details)


@contextmanager
def _logged(service: Service) -> Iterator[None]:
    root, handler = logging.getLogger(), _Forwarded(service)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _bind(how: Listening) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(how.host or None, how.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)  # only where it is TCP by name, asyncio sends without delay
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as e:
        raise StorageFailure(f"{how.host}:{how.port}: cannot listen there: {(e.strerror or str(e)).lower()}") from None
    return listener


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that readers see all of it or nothing."""
    aside = path.with_name(path.name + ".new")
    aside.write_text(text)
    aside.replace(path)


@contextmanager
def _managed(service: Service, how: Listening) -> Iterator[None]:
    if how.manage_every is None:
        yield
        return
    over = threading.Event()
    policy = Policy(interval=how.manage_every)
    work = threading.Thread(target=monitor, args=(service.lake, policy, service.log, over.wait), daemon=True)
    work.start()
    try:
        yield
    finally:
        over.set()
        work.join(_GRACE_SECONDS)


@contextmanager
def _ending_with(how: Listening, server: uvicorn.Server) -> Iterator[None]:
    """End with the other end of a pipe: the process that started the service has ended."""
    if how.parent is not None:
        threading.Thread(target=_wait_for_end, args=(how.parent, server), daemon=True).start()
    yield


def _wait_for_end(descriptor: int, server: uvicorn.Server) -> None:
    while os.read(descriptor, 1):
        pass
    server.should_exit = True


def warm_up(service: Service, with_spark: bool) -> None:
    """Load DuckDB and the columnar readers and, if asked to, start Spark, in a background thread."""
    threading.Thread(target=_warm_up, args=(service, with_spark), daemon=True).start()


def _warm_up(service: Service, with_spark: bool) -> None:
    load(scan_units, runner, json_column_reader, sandbox, answers)
    queries.connection()
    if service.settings.limits.query.memory is not None:
        child_processes.SERVER.prepare()
    if not with_spark:
        return
    try:
        load(spark_dataframes)  # registers the data source `shoal` with the session
        spark = session.spark_session()
        service.log("info", "Spark has started", master=spark.sparkContext.master)
    except ShoalError as e:
        service.log("error", "Spark does not start", error=str(e))
