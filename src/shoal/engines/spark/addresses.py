"""Addresses of masters and of servers of Spark Connect, and how long to wait for what is there.

Spark itself waits for a minute for a master that is not there.
"""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from shoal.errors import InvalidInput, Unsupported

_CONNECT = 5.0
"""Seconds for a connection to a master or a server."""
_PORTS = {"spark": 7077, "sc": 15002}


def patience() -> float:
    """Seconds to wait for executors: `SHOAL_SPARK_PATIENCE`, or 25."""
    text = os.environ.get("SHOAL_SPARK_PATIENCE") or "25"
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"SHOAL_SPARK_PATIENCE: {text} is not a number of seconds") from None


def require_listening(master: str) -> None:
    """Unsupported if nobody listens at the address of a master, or of a server of Spark Connect."""
    scheme, _, rest = master.partition("://")
    if scheme not in _PORTS:
        return  # yarn and k8s have addresses of their own, in their configuration
    problems = []
    for address in rest.split(";")[0].rstrip("/").split(","):
        try:
            parts = urlsplit(f"//{address}")
            host, port = parts.hostname or "", parts.port or _PORTS[scheme]
        except ValueError:
            raise InvalidInput(
                f"SHOAL_SPARK_MASTER: {master} is not an address (such as {scheme}://host:port)"
            ) from None
        try:
            socket.create_connection((host, port), _CONNECT).close()
        except OSError as e:
            problems.append(f"{host}:{port}: {(e.strerror or str(e) or type(e).__name__).lower()}")
        else:
            return
    raise Unsupported(f"there is no Spark at {master}: {', '.join(problems)} (check SHOAL_SPARK_MASTER)")
