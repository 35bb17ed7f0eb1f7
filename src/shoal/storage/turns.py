"""Writers of one machine take turns, so that they need not find out by losing. Nothing depends on it.

A turn is advice: who waits for long goes ahead, and whoever knows nothing of turns is still held off by
put-if-missing alone. It saves work where many processes write to one journal in a directory.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

NAME = ".turn"
"""The file that is locked, in the folder that is written to; it is no object."""
_LONGEST_WAIT = 0.1
_PAUSE = 0.001


@runtime_checkable
class TakesTurns(Protocol):
    """A store whose writers can take turns."""

    def turn(self, prefix: str) -> AbstractContextManager[None]:
        """Hold the turn for what is below a prefix, if it comes in time."""


def turn(store: object, prefix: str) -> AbstractContextManager[None]:
    """A turn at a store; nothing where it knows none."""
    return store.turn(prefix) if isinstance(store, TakesTurns) else nullcontext()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, or go on without it after a while. It goes with the process that holds it."""
    file = _open(folder / NAME)
    try:
        if file is not None:
            _wait(file)
        yield
    finally:
        if file is not None:
            os.close(file)


def _open(path: Path) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return None


def _wait(file: int) -> None:
    until = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return
            time.sleep(random.uniform(0, _PAUSE))
        except OSError:
            return
        else:
            return
