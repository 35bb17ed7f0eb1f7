"""A TCP proxy that drops connections: in the middle of a request, or before its response."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

_PIECE = 1 << 16
_BUSY = b'{"type":"Error","kind":"storage failure","error":"no room"}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nShoal-Error: storage_failure\r\nRetry-After: 0\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
) % (len(_BUSY), _BUSY)
_END = b"0\r\n\r\n"
"""The end of a chunked body."""
Cut = Literal["answer", "body", "request", "delivered", "refusal"]


class CuttingProxy:
    """Passes bytes between clients and a service, and closes connections on command.

    A request begins with its method, so the first bytes of a client after a response identify the request.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._planned: list[tuple[Cut, bytes, int]] = []
        self._closes = False
        self.cuts = 0
        """Number of connections dropped so far."""
        self.requests: list[str] = []
        """The first lines of all requests."""

    def cut(
        self, what: Cut, times: int = 1, first_line: str = "POST ", after: int = 0, then_close: bool = False
    ) -> None:
        """Drop the connections of the next requests whose first line contains a text.

        `answer` drops them before the response, `body` before its end, `request` after `after` bytes of the request,
        and `delivered` after the whole request, before any response. With `then_close` the proxy refuses connections
        after the last cut.
        """
        with self._lock:
            self._closes = then_close
            self._planned = [(what, first_line.encode(), after)] * times

    def refuse(self, times: int) -> None:
        """Answer the next POST requests with 503 instead of the service."""
        self.cut("refusal", times)

    def _take(self, what: Cut, line: bytes, count: int) -> bool:
        """Whether a planned cut is due; consumes it."""
        with self._lock:
            kind, first_line, after = self._planned[0] if self._planned else ("", b"", 0)
            is_due = kind == what and first_line in line and count >= after
            if is_due:
                self._planned.pop(0)
                self.cuts += 1
                if self._closes and not self._planned:
                    self.close()
            return is_due

    def serve(self) -> None:
        """Accept connections until the proxy is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as service, selectors.DefaultSelector() as ready:
            for side in (client, service):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ready.register(side, selectors.EVENT_READ)
            line, count, is_new = b"", 0, True
            with suppress(OSError):
                while True:
                    for key, _ in ready.select():
                        is_asked = key.fileobj is client
                        data = (client if is_asked else service).recv(_PIECE)
                        if not data:
                            return
                        if is_asked and is_new:
                            line, count = data.partition(b"\r\n")[0], 0
                            self.requests.append(line.decode())
                        is_new = not is_asked
                        count += len(data) if is_asked else 0
                        if is_asked and self._take("refusal", line, count):
                            client.sendall(_REFUSAL)
                            return
                        if self._take("request" if is_asked else "answer", line, count):
                            return
                        is_cut = not is_asked and self._take("body", line, count)
                        (service if is_asked else client).sendall(data[:-2] if is_cut else data)
                        if is_cut or (is_asked and data.endswith(_END) and self._take("delivered", line, count)):
                            return

    def close(self) -> None:
        """Stop accepting connections."""
        with suppress(OSError):  # it may be closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def cutting(url: str) -> Iterator[CuttingProxy]:
    """A proxy in front of a service."""
    proxy = CuttingProxy(url)
    server = threading.Thread(target=proxy.serve, daemon=True)
    server.start()
    try:
        yield proxy
    finally:
        proxy.close()
        server.join()
