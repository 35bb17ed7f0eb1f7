"""Runs a real service in its own process for a test."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """A running service."""

    url: str
    lake: Path
    process: subprocess.Popen[bytes]
    log: Path

    def lines(self) -> str:
        """The log so far."""
        return self.log.read_text()


@contextmanager
def serving(lake: Path, folder: Path, flags: Sequence[str] = ()) -> Iterator[Served]:
    """Run a service on a free local port until the block ends."""
    port_file, log = folder / f"port-{time.monotonic_ns()}", folder / f"service-{time.monotonic_ns()}.log"
    command = [sys.executable, "-m", "shoal", "serve", "-l", "localhost:0", "-lake", str(lake)]
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "-portfile", str(port_file), *flags], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        scheme = "https" if "-tls.cert" in flags else "http"
        yield Served(f"{scheme}://localhost:{_wait_for(port_file, process, log)}", lake, process, log)
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        finally:
            process.kill()


def _wait_for(port_file: Path, process: subprocess.Popen[bytes], log: Path) -> int:
    until = time.monotonic() + _PATIENCE
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise AssertionError(f"the service did not start: {log.read_text()}")
        time.sleep(0.02)
    return int(port_file.read_text())
