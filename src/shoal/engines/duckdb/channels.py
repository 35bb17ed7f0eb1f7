"""Messages between this process and the children that run statements, over sockets."""

from __future__ import annotations

import struct
from enum import Enum
from socket import MSG_DONTWAIT, MSG_PEEK, socket

_HEADER = struct.Struct("<cQ")


class Kind(Enum):
    """What a message is."""

    JOB = b"j"
    """To the child: a pickled job, and its limits."""
    STARTED = b"s"
    """From the child: the statement is valid."""
    ROWS = b"r"
    """A stream of Arrow with one batch."""
    END = b"e"
    """There are no more rows."""
    FAILED = b"f"
    """An error of DuckDB, and its reason, as JSON."""
    OUT_OF_MEMORY = b"m"
    TOO_LARGE = b"l"
    """A row is larger than its share of the memory."""


class Channel:
    """One end of a connection. Each message is its kind, its length and its bytes."""

    def __init__(self, end: socket) -> None:
        self._end = end

    def send(self, kind: Kind, data: bytes | memoryview = b"") -> None:
        """Send a message; OSError if the other end is gone."""
        view = memoryview(data).cast("B")
        self._end.sendall(_HEADER.pack(kind.value, len(view)))
        self._end.sendall(view)

    def receive(self) -> tuple[Kind, bytearray]:
        """Wait for a message; EOFError if the other end is gone."""
        kind, length = _HEADER.unpack(self._bytes(_HEADER.size))
        return Kind(kind), self._bytes(length)

    def _bytes(self, length: int) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            try:
                count = self._end.recv_into(view)
            except ConnectionError:
                count = 0
            if not count:
                raise EOFError
            view = view[count:]
        return data

    @property
    def is_open(self) -> bool:
        """Whether the other end is there; it has sent nothing yet."""
        try:
            return bool(self._end.recv(1, MSG_PEEK | MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except ConnectionError:
            return False

    def wait_for_end(self, seconds: float) -> None:
        """Read on until the other end is gone; TimeoutError after some seconds without a byte."""
        self._end.settimeout(seconds)
        while self._end.recv(1 << 16):
            pass

    def close(self) -> None:
        """Close this end."""
        self._end.close()
