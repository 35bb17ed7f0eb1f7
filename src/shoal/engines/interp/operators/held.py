"""Values that must be held: in memory as long as they fit, on disk from there on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from shoal.engines.interp.spill import Room, SpillFile, Workspace
from shoal.model.values import Value

QUEUE_LENGTH = 50_000
"""How many values a queue keeps in memory at either end, at most."""


class Held:
    """A growing list that can be read again and again."""

    def __init__(self, workspace: Workspace, limit: int) -> None:
        self._workspace = workspace
        self._room = Room(limit)
        self._values: list[Value] = []
        self._file: SpillFile | None = None

    def __len__(self) -> int:
        return len(self._values) if self._file is None else self._file.count

    def append(self, value: Value) -> None:
        """Hold one more value."""
        if self._file is not None:
            self._file.append(value)
            return
        self._values.append(value)
        if self._room.take(value):
            self._file = SpillFile(self._workspace, self._values)
            self._values = []

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values) if self._file is None else iter(self._file)

    def remove(self) -> None:
        """Give memory and disk space back."""
        self._values = []
        if self._file is not None:
            self._file.remove()


class Queue:
    """First in, first out. What is beyond a length waits in files, of which one is read and one is written."""

    def __init__(self, workspace: Workspace, limit: int = 1 << 62) -> None:
        self._workspace = workspace
        self._room = Room(limit)
        self._front: deque[Value] = deque()
        self._files: deque[SpillFile] = deque()
        self._reading: Iterator[Value] | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, value: Value) -> None:
        """Add a value at the end."""
        self._count += 1
        if not self._files and len(self._front) < QUEUE_LENGTH and self._room.left > 0:
            self._front.append(value)
            self._room.take(value)
            return
        if not self._files or self._files[-1].count >= QUEUE_LENGTH or self._is_read(self._files[-1]):
            self._files.append(SpillFile(self._workspace))
        self._files[-1].append(value)

    def _is_read(self, file: SpillFile) -> bool:
        return self._reading is not None and file is self._files[0]

    def pop(self) -> Value:
        """Take the first value; the queue must not be empty."""
        self._count -= 1
        if self._front:
            value = self._front.popleft()
            if not self._front:
                self._room.reset()
            return value
        while True:
            if self._reading is None:
                self._reading = iter(self._files[0])
            for value in self._reading:
                return value
            self._files.popleft().remove()
            self._reading = None

    def clear(self) -> None:
        """Forget everything."""
        self._front.clear()
        self._room.reset()
        for file in self._files:
            file.remove()
        self._files.clear()
        self._reading = None
        self._count = 0
