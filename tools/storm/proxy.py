"""A proxy before an S3 server that fails at random: more than half of its faults hit writes, most after they were done.

It runs in a process of its own. Conditional puts of one name pass one by one, because the server behind checks the
condition and writes in two steps.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter, defaultdict
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

WRITES = ("PUT", "DELETE", "POST")
WRITE_RATE, READ_RATE = 0.2, 0.01
AFTER = (
    "500 after",
    "503 after",
    "412 after",
    "drop after",
    "reset after",
    "cut answer",
    "slow",
    "twice",
    "late twice",
)
BEFORE = ("500 before", "503 before", "409 before", "drop before", "late")
READS = ("500 before", "503 before", "drop before", "slow", "truncated", "reset after")
_SLOW = (0.05, 0.2, 1.0, 6.0)
"""Seconds; the last is longer than clients wait."""
_HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


class Answer(NamedTuple):
    """A response of the server behind."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Proxy(ThreadingHTTPServer):
    """Passes requests on, and fails."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, target: str, seed: int, rate: float) -> None:
        self.target = urlsplit(target).netloc
        self.rate = rate
        self.chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._names: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed in the middle of a request is no news."""

    def choose(self, method: str, is_create: bool) -> tuple[str, float]:
        """The fault of a request, or none; and how long a slow one takes."""
        with self._lock:
            chance = self.chance
            is_write = method in WRITES
            self.counts["writes" if is_write else "reads"] += 1
            if chance.random() >= self.rate * (WRITE_RATE if is_write else READ_RATE):
                return "", 0.0
            kinds = READS if not is_write else AFTER if chance.random() < 0.7 else BEFORE
            fault = chance.choice(kinds)
            if fault in ("412 after", "409 before") and not is_create:
                fault = "503 after"
            self.counts["faults on writes" if is_write else "faults on reads"] += 1
            self.counts[fault] += 1
            return fault, chance.choices(_SLOW, (30, 20, 5, 1))[0]

    def name_lock(self, path: str) -> threading.Lock:
        """The lock of an object's name."""
        with self._lock:
            return self._names[path]


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: Proxy
    timeout = 120

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._upstream: HTTPConnection | None = None

    def finish(self) -> None:
        super().finish()
        if self._upstream is not None:
            self._upstream.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Nothing is logged."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_create = "If-None-Match" in self.headers and self.command == "PUT"
        fault, pause = self.server.choose(self.command, is_create)
        if fault == "drop before":
            self.close_connection = True
            return
        if fault.endswith("before"):
            self._refuse(int(fault[:3]))
            return
        if fault == "late":
            self._later(pause * 5, body, is_create)
            self.close_connection = True
            return
        answer = self._pass_on(body, is_create)
        if fault == "twice":
            answer = self._pass_on(body, is_create)
        elif fault == "late twice":
            self._later(pause * 5, body, is_create)
        elif fault == "slow":
            time.sleep(pause)
        self._answer(answer, fault)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = _serve  # noqa: N815 - the names in the base class

    def _later(self, seconds: float, body: bytes, is_create: bool) -> None:
        """Do the request in some time, on another connection."""
        request = (self.command, self.path, body, dict(self.headers.items()))

        def land() -> None:
            connection = HTTPConnection(self.server.target, timeout=60)
            with self.server.name_lock(self.path):
                _ask(connection, *request)
            connection.close()

        timer = threading.Timer(seconds, land)
        timer.daemon = True
        timer.start()

    def _pass_on(self, body: bytes, is_create: bool) -> Answer:
        request = (self.command, self.path, body, dict(self.headers.items()))
        if self._upstream is None:
            self._upstream = HTTPConnection(self.server.target, timeout=60)
        try:
            if not is_create:
                return _ask(self._upstream, *request)
            with self.server.name_lock(self.path):
                return _ask(self._upstream, *request)
        except (OSError, HTTPException):
            self._upstream.close()
            self._upstream = None
            self.server.counts["the server itself failed"] += 1
            return Answer(503, [], b"")

    def _refuse(self, status: int) -> None:
        code = {409: "ConditionalRequestConflict", 412: "PreconditionFailed"}.get(status, "SlowDown")
        body = f"<Error><Code>{code}</Code></Error>".encode()
        self._send(Answer(status, [("Content-Type", "application/xml")], body))

    def _answer(self, answer: Answer, fault: str) -> None:
        if fault in ("500 after", "503 after", "412 after"):
            self._refuse(int(fault[:3]))
        elif fault == "drop after":
            self.close_connection = True
        elif fault == "reset after":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif fault == "cut answer":
            self.wfile.write(b"HTTP/1.1 20")
            self.close_connection = True
        elif fault == "truncated":
            self._send(answer._replace(body=answer.body[: len(answer.body) // 2]), len(answer.body))
            self.close_connection = True
        else:
            self._send(answer)

    def _send(self, answer: Answer, size: int | None = None) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        length = next((v for n, v in answer.headers if n.lower() == "content-length"), None)
        is_head = self.command == "HEAD" and length is not None
        self.send_header("Content-Length", str(length if is_head else size if size is not None else len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _ask(connection: HTTPConnection, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return Answer(response.status, response.getheaders(), response.read())


def main(target: str, folder: str, seed: str, rate: str) -> None:
    """Serve until the process is ended, and keep the counts in a file."""
    proxy = Proxy(target, int(seed), float(rate))
    counts = Path(folder) / "proxy.json"
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    while True:
        written = counts.with_suffix(".new")
        written.write_text(json.dumps({"port": proxy.server_address[1], **proxy.counts}))
        written.replace(counts)
        time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
