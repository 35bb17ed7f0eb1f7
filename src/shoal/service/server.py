"""Runs a service until a signal ends it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from shoal.errors import ShoalError, StorageFailure
from shoal.lazy import lazy, load
from shoal.local.manage import Policy, monitor
from shoal.service.app import make_app
from shoal.service.auth.settings import is_loopback
from shoal.service.connections import Connection
from shoal.service.state import Service

if TYPE_CHECKING:
    from shoal.engines.duckdb import queries, runner, sandbox
    from shoal.engines.spark import session
    from shoal.engines.tables import answers
    from shoal.formats.json import column_reader as json_column_reader
    from shoal.planner import scan_units, spark_dataframes
else:
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
        ssl_certfile=how.certificate,
        ssl_keyfile=how.key,
    )
    server = uvicorn.Server(config)
    with listener, _managed(service, how), _ending_with(how, server):
        port = listener.getsockname()[1]
        service.log("info", "listening", addr=f"{how.host}:{port}", lake=service.lake.uri)
        if how.certificate is None and not is_loopback(how.host):
            service.log("warn", "tokens and data travel in the clear (use -tls.cert and -tls.key, or a proxy)")
        if how.port_file is not None:
            _write_whole(how.port_file, str(port))
        warm_up(service, how.with_spark)
        server.run([listener])
    service.log("info", "ended")


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
    if not with_spark:
        return
    try:
        load(spark_dataframes)  # registers the data source `shoal` with the session
        spark = session.spark_session()
        service.log("info", "Spark has started", master=spark.sparkContext.master)
    except ShoalError as e:
        service.log("error", "Spark does not start", error=str(e))
