"""Ports for servers that tests start.

A port that a server keeps over restarts lies below those that the system gives to clients. A client that retries a
port of its own range while nobody listens there may connect to itself, and then the server finds its port taken.
"""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

HOST = "127.0.0.1"
_FIRST, _USUAL_END = 10_000, 32_768
_TAKEN = 1000
_random = random.SystemRandom()
"""Tests seed the usual generator, and two processes of them would try the same ports."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def lasting_port() -> int:
    """A port that nobody listens on and that the system gives to no client."""
    end = _first_of_clients()
    for _ in range(_TAKEN):
        port = _random.randrange(_FIRST, end)
        with suppress(OSError), socket.create_server((HOST, port)):
            return port
    raise OSError(f"no port from {_FIRST} to {end} is free")


def _first_of_clients() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return _USUAL_END
    return first if first > _FIRST else 65_536
