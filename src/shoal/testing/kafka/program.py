"""A server in a process of its own, which a test may kill and start again on the same files and ports.

Its output goes to one log. Whether it is ready is asked of what it wrote since its last start: the log of a server that
was killed also says that it had started once.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

_TAIL, _ATTEMPTS = 3000, 5
_PORT_TAKEN = "in use"
_SECONDS_TO_STOP = 20.0


T = TypeVar("T")


class DidNotStart(Exception):
    """A server ended or was not ready in time; the message ends with its log."""


@dataclass
class Program:
    """A command, and its process while there is one."""

    name: str
    command: Sequence[str]
    log: Path
    folder: Path
    variables: Mapping[str, str] | None = None
    """Its whole environment; by default that of this process."""
    user: str | None = None
    """Whom it runs as; by default as this process."""
    stopping: signal.Signals = signal.SIGTERM
    """What asks it to end in order."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _before: int = field(default=0, init=False)

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self.process is not None, f"{self.name} was not started"
        return self.process.pid

    def is_running(self) -> bool:
        """Whether there is a process that has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Start it and wait until it is ready."""
        assert not self.is_running(), f"{self.name} runs already"
        self._before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                self.command,
                env=self.variables,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )
        try:
            self.wait_until(is_ready, seconds)
        except BaseException:
            self.kill()
            raise

    def wait_until(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Wait for a condition while the process runs."""
        until = time.monotonic() + seconds
        while not is_ready():
            ended = not self.is_running()
            if (ended and not is_ready()) or time.monotonic() > until:
                how = "ended" if ended else f"was not ready within {seconds:.0f} seconds"
                raise DidNotStart(f"{self.name} {how}; the end of {self.log}:\n{self.output()[-_TAIL:]}")
            time.sleep(0.02)

    def output(self) -> str:
        """What it wrote since its last start."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(self._before)
            return log.read().decode(errors="replace")

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self, stopping: signal.Signals | None = None) -> None:
        """Ask it to end, and wait for that; kill it if it does not."""
        if self.process is not None:
            self.process.send_signal(stopping or self.stopping)
            try:
                self.process.wait(_SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                self.kill()


def started_on_free_ports(start: Callable[[int], T]) -> T:
    """What a function starts that chooses ports. If one is taken before the server gets to it, it is called again.

    It gets the number of the attempt, for names of folders.
    """
    for attempt in range(_ATTEMPTS - 1):
        try:
            return start(attempt)
        except DidNotStart as e:
            if _PORT_TAKEN not in str(e):
                raise
    return start(_ATTEMPTS - 1)
