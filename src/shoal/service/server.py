"""Runs a service until it is told to end."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from shoal.errors import StorageFailure
from shoal.local.manage import Policy, monitor
from shoal.service.app import make_app
from shoal.service.auth.settings import is_loopback
from shoal.service.connections import Connection
from shoal.service.state import Service
from shoal.service.warmth import warm_up

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
    """Seconds between two rounds of maintenance; None is no maintenance."""


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
        found = socket.getaddrinfo(how.host or None, how.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)  # only where it is TCP by name, asyncio sends without delay
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as e:
        raise StorageFailure(f"{how.host}:{how.port}: cannot listen there: {(e.strerror or str(e)).lower()}") from None
    return listener


def _write_whole(path: Path, text: str) -> None:
    """Who waits for the file reads all of it."""
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
    """End when the other end of a pipe does: whoever started the service has gone."""
    if how.parent is not None:
        threading.Thread(target=_wait_for_end, args=(how.parent, server), daemon=True).start()
    yield


def _wait_for_end(descriptor: int, server: uvicorn.Server) -> None:
    while os.read(descriptor, 1):
        pass
    server.should_exit = True
