"""A pager for output that is longer than the screen. It is `$PAGER`, or `less` with lines that do not wrap.

What fits the screen is written to the terminal as it is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import suppress
from typing import BinaryIO

_DEFAULT = "less -SRFX"
_LESS = "SRFX"
"""The options of a `less` that `$PAGER` names without any."""


class PagerClosed(Exception):
    """The reader has left the pager before the end of the output."""


class Pager:
    """A terminal of a number of lines. What does not fit is shown in the pager."""

    def __init__(self, terminal: BinaryIO, lines: int) -> None:
        self._terminal = terminal
        self._lines = lines
        self._held: list[bytes] | None = []
        """What may still fit the screen; None from the first byte on that was written."""
        self._count = 0
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, data: bytes, /) -> None:
        """Hold what may fit the screen, or pass it on."""
        if self._held is None:
            self._put(data)
            return
        self._held.append(data)
        self._count += data.count(b"\n")
        if self._count >= self._lines:
            self._process = _start(self._terminal)
            self._release()

    def flush(self) -> None:
        """Nothing: what fits the screen is written at the end."""

    def close(self) -> None:
        """Write what is held, and wait until the reader leaves the pager."""
        if self._held is not None:
            self._release()
        process = self._process
        if process is None or process.stdin is None:
            self._terminal.flush()
            return
        with suppress(BrokenPipeError):
            process.stdin.close()
        while True:
            try:
                process.wait()
                return
            except KeyboardInterrupt:  # a key of the pager, which is still there
                continue

    def _release(self) -> None:
        held, self._held = b"".join(self._held or ()), None
        self._put(held)

    def _put(self, data: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            self._terminal.write(data)
            return
        try:
            self._process.stdin.write(data)
        except BrokenPipeError:
            raise PagerClosed from None


def _start(terminal: BinaryIO) -> subprocess.Popen[bytes] | None:
    """The pager; None if there is none, or if `$PAGER` says that there is to be none."""
    command = shlex.split(os.environ.get("PAGER", _DEFAULT))
    if not command or command == ["cat"] or os.environ.get("TERM") == "dumb":
        return None
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own choice
            command, stdin=subprocess.PIPE, stdout=terminal, env={"LESS": _LESS, **os.environ}
        )
    except OSError:
        return None
