"""Looks at processes of the system while a test runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

_EVERY = 0.005


class Watch:
    """The most memory that a child of a process had, as far as it was seen."""

    def __init__(self, parent: int) -> None:
        self.peak = 0
        """Resident bytes."""
        self._parent = parent

    def look(self) -> None:
        """Note the peak of each child that there is."""
        for child in children(self._parent):
            with suppress(OSError, TypeError):  # it has ended
                status = Path(f"/proc/{child}/status").read_text()
                self.peak = max(self.peak, int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10)  # type: ignore[index]


def children(parent: int) -> list[int]:
    """The processes that a process started; none if it has ended."""
    with suppress(OSError):
        lists = [thread.read_text() for thread in Path(f"/proc/{parent}/task").glob("*/children")]
        return [int(child) for text in lists for child in text.split()]
    return []


def descendants(parent: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    return [each for child in children(parent) for each in (child, *descendants(child))]


@contextmanager
def watching(parent: int) -> Iterator[Watch]:
    """Watch the memory of the children of a process."""
    watch, over = Watch(parent), Event()

    def run() -> None:
        while not over.wait(_EVERY):
            watch.look()

    thread = Thread(target=run)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()


def has_children(parent: int, most: int, seconds: float) -> bool:
    """Whether a process has no more than some children, at once or after some seconds."""
    until = time.monotonic() + seconds
    while len(children(parent)) > most and time.monotonic() < until:
        time.sleep(_EVERY)
    return len(children(parent)) <= most
