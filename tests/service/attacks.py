"""Clients that hold on to a service: they ask and do not read, send and do not go on, or wait for something."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tests.service.test_authorization_matrix import NAMES, ROWS

from shoal.ids import new, to_text
from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake, create_local
from shoal.service.routes import Route
from shoal.testing.services import Served

PATIENCE = 30.0
_SMALL_SEGMENT = 536
"""Segments of this size make the system of the service buffer little: a client that does not read is noticed soon."""
_SMALL_BUFFER = 2048
ENDLESS = "yield 1 " + "| over [1,2,3,4,5,6,7,8,9,10] " * 13


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a token."""

    served: Served
    name: str
    token: str

    def head(self, method: str, path: str, length: int, **headers: str) -> bytes:
        """The head of a request."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}"]
        lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
        return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()

    def open(self, data: bytes) -> socket.socket:
        """Send bytes on a connection of its own, of which nothing is read."""
        place = urlsplit(self.served.url)
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SMALL_SEGMENT)
        line.settimeout(PATIENCE)
        line.connect(("127.0.0.1", place.port))
        line.sendall(data)
        return line

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, float]:
        """Status, body and seconds of a request whose answer is read to its end."""
        began = time.monotonic()
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        place = urlsplit(self.served.url)
        with socket.create_connection(("127.0.0.1", place.port), PATIENCE) as line:
            line.sendall(self.head(method, path, len(data), Connection="close", **headers) + data)
            answer = b"".join(iter(lambda: line.recv(1 << 16), b""))
        return int(answer[9:12]), answer.partition(b"\r\n\r\n")[2], time.monotonic() - began

    def query(self, program: str) -> int:
        """The status of a query."""
        return self.ask("POST", "/query", {"query": program})[0]

    def load(self, pool: str, body: bytes) -> int:
        """The status of a load."""
        return self.ask("POST", f"/pool/{pool}/branch/main", body)[0]

    def held(self, kind: str) -> int:
        """How many slots of a kind the service says are taken."""
        figures = self.ask("GET", "/metrics")[1].decode()
        match = re.search(rf'shoal_slots_held{{kind="{kind}"}} (\d+)', figures)
        assert match is not None, figures
        return int(match[1])

    def begun(self) -> int:
        """How many answers the service has begun, beside those about itself."""
        figures = self.ask("GET", "/metrics")[1].decode()
        counts = re.findall(r'shoal_requests_total{operation="(\w+)",status="200"} (\d+)', figures)
        return sum(int(count) for operation, count in counts if operation not in ("metrics", "status"))

    def status_seconds(self) -> float:
        """How long `/status` takes."""
        status, _, seconds = self.ask("GET", "/status")
        assert status == 200
        return seconds

    def route(self, route: Route) -> bytes:
        """A request to a route of the table."""
        row = ROWS[route.name]
        names = {**NAMES, **(row.names or {})}
        path = route.path.format(**{name: quote(text, safe="") for name, text in names.items()})
        params = urlencode(row.params or {})
        body = b"" if row.body is None else json.dumps(row.body).encode()
        return self.head(route.method, f"{path}?{params}" if params else path, len(body)) + body

    def post(self, path: str, body: Any) -> bytes:
        """A request with a body."""
        data = json.dumps(body).encode()
        return self.head("POST", path, len(data)) + data


def open_all(stack: ExitStack, caller: Caller, requests: Iterable[bytes]) -> list[socket.socket]:
    """A connection for each request; all are closed with the stack."""
    return [stack.enter_context(caller.open(data)) for data in requests]


def make_lake(folder: Path) -> LocalLake:
    """A lake whose pool `logs` gives long answers to every question: keys, values and messages are long."""
    lake = create_local(str(folder / "lake"))
    pool = lake.create("logs", key="ts")
    long = "x" * 8000
    pool.load([{"ts": long}])
    pool.create_branch("first")
    with ThreadPoolExecutor(21) as threads:  # loads that come at the same time share a journal entry
        list(threads.map(lambda i: pool.load([{"ts": f"{i} {long}"}], message=f"{i} {long}"), range(105)))
    pool.create_branch("branch")
    pool.create_tag("v1")
    return lake


def callers(lake: LocalLake, served: Served, names: Iterable[str]) -> list[Caller]:
    """Callers with tokens of their own."""
    access = LocalAccess(lake)
    return [Caller(served, name, access.create_token(to_text(new()), name).secret) for name in names]


def resident(served: Served) -> int:
    """Bytes that a service has in memory."""
    text = Path(f"/proc/{served.process.pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+)", text)
    assert match is not None
    return int(match[1]) << 10


def wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    """Wait for something that has to happen in time."""
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)
