"""Values that must be held: in memory as long as they fit, on disk from there on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from shoal.engines.interp.spill import Room, SpillFile, Workspace
from shoal.model.values import Value

QUEUE_LENGTH = 50_000
"""How many values a queue keeps in memory."""


class Held:
    """A growing list that can be read again and again."""

    def __init__(self, workspace: Workspace, limit: int) -> None:
        self._workspace = workspace
        self._room = Room(limit)
        self._values: list[Value] = []
        self._file: SpillFile | None = None

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


class Queue:
    """First in, first out; the end of a long queue waits on disk."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._head: deque[Value] = deque()
        self._tail: SpillFile | None = None
        self._back: Iterator[Value] | None = None

    def __len__(self) -> int:
        return len(self._head) + (0 if self._tail is None else self._tail.count)

    def push(self, value: Value) -> None:
        """Add a value at the end."""
        if self._tail is None and len(self._head) >= QUEUE_LENGTH:
            self._tail = SpillFile(self._workspace)
        if self._tail is None:
            self._head.append(value)
        else:
            self._tail.append(value)

    def pop(self) -> Value:
        """Take the first value; the queue must not be empty."""
        if not self._head and self._tail is not None:
            self._head.extend(self._tail)
            self._tail.remove()
            self._tail = None
        return self._head.popleft()

    def clear(self) -> None:
        """Forget everything."""
        self._head.clear()
        if self._tail is not None:
            self._tail.remove()
            self._tail = None
