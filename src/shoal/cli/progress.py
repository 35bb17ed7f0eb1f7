"""A progress line for long commands. It is rewritten in place and erased at the end.

Values are counted in blocks as they pass through an iterator: none is delayed, and the clock is read once per
block. Blocks are small where values come slowly.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, ParamSpec, TextIO, TypeVar, cast

from shoal.api.options import Position
from shoal.cli.flags import Parsed
from shoal.client.progress import watching as watching_sent
from shoal.engines.progress import watching
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Batch

_AFTER = 2.0
_EVERY = 0.2
_LARGEST_BLOCK = 1024
_UNITS = ("B", "kB", "MB", "GB", "TB")
_P = ParamSpec("_P")
_V = TypeVar("_V")


class Progress:
    """Watches inputs and shows how much of them was read. A context manager that erases the line at the end."""

    def __init__(
        self,
        stream: TextIO | None,
        total: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        """None: no progress line."""
        self._total = total
        """Bytes to read; 0 if unknown."""
        self._clock = clock
        self._began = self._last_read = clock()
        self._next = self._began + _AFTER
        self._values = self._bytes = 0
        self._files: list[Position] = []
        self._shown = 0
        self._tasks = (0, 0)
        self._sent = 0
        self._line_is_free = Lock()
        self._stack = ExitStack()

    def __enter__(self) -> Progress:
        if self._stream is not None:
            self._stack.enter_context(watching(self._take_tasks))
            self._stack.enter_context(watching_sent(self._take_sent))
            over = Event()
            ticker = Thread(target=self._tick, args=(over,), daemon=True)
            ticker.start()
            self._stack.callback(ticker.join)
            self._stack.callback(over.set)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        self.erase()

    def _take_tasks(self, done: int, total: int) -> None:
        self._tasks = done, total

    def _take_sent(self, count: int) -> None:
        """Count bytes that were sent to a service."""
        self._sent += count
        now = self._clock()
        if now >= self._next:
            self._next = now + _EVERY
            self._show(self._sent_line(now))

    def _sent_line(self, now: float) -> str:
        return f"{self._share(self._sent, 'sent')}, {now - self._began:.0f} s"

    def _tick(self, over: Event) -> None:
        """Show elapsed time and tasks by the clock, for engines that read files themselves."""
        while not over.wait(_EVERY):
            now = self._clock()
            if now >= self._began + _AFTER and not self._files and not self._values:
                done, total = self._tasks
                tasks = f"{done} of {total} tasks, " if total else ""
                self._show(self._sent_line(now) if self._sent else f"{tasks}{now - self._began:.0f} s")

    def watch(self, file: Position, values: Iterator[_V], /) -> Iterator[_V]:
        """The values of a file, counted as they pass through."""
        return values if self._stream is None else self._watch(file, values)

    def _watch(self, file: Position, values: Iterator[_V]) -> Iterator[_V]:
        self._files.append(file)
        try:
            yield from self._count(values)
        finally:
            self._files.remove(file)
            self._bytes += file.tell()

    def _count(self, values: Iterator[_V]) -> Iterator[_V]:
        block = 1
        for value in values:
            block = self._look(block)
            yield value
            if isinstance(value, Value):
                yield from islice(values, block - 1)
                self._values += block
            else:
                self._values += cast("Batch", value).length

    def _look(self, block: int) -> int:
        """Show the line if it is due; returns the number of values to pass before the next look."""
        now = self._clock()
        took, self._last_read = now - self._last_read, now
        if now >= self._next:
            self._next = now + _EVERY
            self._show(self._line(now))
        return min(2 * block, _LARGEST_BLOCK) if took < _EVERY / 4 else max(1, block // 2)

    def _line(self, now: float) -> str:
        done = self._bytes + sum(file.tell() for file in self._files)
        return f"{self._share(done, 'read')}, {self._values:,} values, {now - self._began:.0f} s"

    def _share(self, done: int, word: str) -> str:
        is_part = self._total and done <= self._total
        return (
            f"{byte_count(done)} of {byte_count(self._total)} {word} ({100 * done // self._total}%)"
            if is_part
            else f"{byte_count(done)} {word}"
        )

    def _show(self, line: str) -> None:
        with self._line_is_free:
            if self._stream is not None:
                line = line[: _width(self._stream)]
                self._stream.write(f"\r{line.ljust(self._shown)}")
                self._stream.flush()
                self._shown = len(line)

    def erase(self) -> None:
        """Erase the line."""
        with self._line_is_free:
            if self._shown and self._stream is not None:
                self._stream.write(f"\r{' ' * self._shown}\r")
                self._stream.flush()
            self._shown = 0

    def end(self) -> None:
        """Erase the line and show it no more."""
        self.erase()
        self._stream = None

    def above(self, show: Callable[_P, None]) -> Callable[_P, None]:
        """Wrap a function that writes to the terminal, so that it erases the line first."""

        def erase_and_show(*args: _P.args, **kwargs: _P.kwargs) -> None:
            self.erase()
            show(*args, **kwargs)

        return erase_and_show


def open_progress(args: Parsed, paths: Iterable[str]) -> Progress:
    """Progress of a command, shown if standard error is a terminal."""
    is_shown = not args["q"] and is_terminal(sys.stderr)
    return Progress(sys.stderr, total_size(paths)) if is_shown else Progress(None)


def shares_terminal(args: Parsed) -> bool:
    """Whether results go to the terminal of the progress line, which then ends with the first of them."""
    return not args["o"] and not args["split"] and is_terminal(sys.stdout) and is_terminal(sys.stderr)


def ended_by_first(results: Iterator[Value], progress: Progress) -> Iterator[Value]:
    """Pass results on; the first one ends the progress line."""
    for value in results:
        progress.end()
        yield value
        break
    yield from results


def total_size(paths: Iterable[str]) -> int:
    """The total size of files; 0 unless all paths are files."""
    files = [Path(path) for path in paths]
    return sum(file.stat().st_size for file in files) if all(file.is_file() for file in files) else 0


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads what is written there."""
    return stream is not None and stream.isatty()


def _width(stream: TextIO) -> int:
    """The width of a line. A line that wraps could not be rewritten."""
    try:
        return max(os.get_terminal_size(stream.fileno()).columns - 1, 0) or 79
    except OSError:
        return 79


def byte_count(count: int) -> str:
    """A number of bytes for people."""
    number, unit = float(count), 0
    while number >= 999.95 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{count} B"
