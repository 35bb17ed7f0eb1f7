"""The S3 server of moto in its own process, for tests.

moto checks If-None-Match and writes without a lock around both. It decided a thousand races of eight creates
correctly, but tests that depend on races use the scripted server.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit


@contextmanager
def running_moto(bucket: str = "bucket", seconds: float = 60) -> Iterator[str]:
    """Run a server with one bucket on a free port; yields its endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean) as server:  # noqa: S603
        try:
            endpoint = f"http://127.0.0.1:{port}"
            _create_bucket(endpoint, bucket, time.monotonic() + seconds)
            yield endpoint
        finally:
            server.terminate()


def _create_bucket(endpoint: str, bucket: str, until: float) -> None:
    while True:
        try:
            return put_unsigned(endpoint, f"/{bucket}")
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def put_unsigned(endpoint: str, path: str, body: bytes = b"", **headers: str) -> None:
    """Create a bucket or an object; underscores in header names become dashes."""
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
    try:
        connection.request("PUT", path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        status = connection.getresponse().status
        if status != 200:
            raise ConnectionError(f"{endpoint}{path}: {status}")
    finally:
        connection.close()
