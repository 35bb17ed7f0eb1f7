"""Files whose checksums matched, for engines that open files by themselves. A match is valid for one state of a file.

DuckDB reads a file without checking it, so Shoal checks the whole file first, and remembers its signature: what the
file system reports of it. A write through the file system changes the signature. A disk that flips a bit does not, so
a match also expires.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from shoal.errors import StorageFailure
from shoal.model.node import frozen

CAPACITY = 1 << 15
"""Files that are remembered, at about 600 bytes each; beyond that, the least recently used ones are checked again."""
MAX_AGE = 600.0
"""Seconds for which a match is valid.

A checksum takes about a second per gigabyte: with ten minutes, a server that reads one gigabyte all the time spends
less than 0.2 % of a core on checking it again.
"""
SETTLED = 1.0
"""Seconds after its last change from which a file is remembered. File systems count time in steps of up to some
milliseconds, older ones in seconds: two changes within one step would have one signature."""


class Signature(NamedTuple):
    """What the file system reports of a file; equal as long as nobody writes to it."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    def has_same_content(self, other: Signature) -> bool:
        """Whether nobody wrote to the file; a link to it that was made or removed does not count."""
        return self[:4] == other[:4]


def signature_of(path: str) -> Signature:
    """The signature of a file; FileNotFoundError if there is none."""
    status = os.stat(path, follow_symlinks=False)
    return Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class VerifiedFiles:
    """A bounded memory of matches, in which the least recently used are replaced first. Threads may share it."""

    def __init__(
        self, capacity: int = CAPACITY, max_age: float = MAX_AGE, clock: Callable[[], float] = time.time
    ) -> None:
        self._capacity, self._max_age, self._clock = capacity, max_age, clock
        self._matches: OrderedDict[str, tuple[Signature, float]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._matches)

    def ensure(self, path: str, verify: Callable[[], None]) -> Signature:
        """The signature of a file whose checksums match; `verify` reads the file unless a match is remembered.

        The signature is taken before the file is read, so a change in between leads to another check later.
        """
        signature = signature_of(path)
        if not self._has(path, signature):
            verify()
            self.remember(path, signature)
        return signature

    def remember(self, path: str, signature: Signature) -> None:
        """Note that the checksums of a file in this state match, once the file is old enough."""
        now = self._clock()
        if now - signature.changed / 1e9 < SETTLED:
            return
        with self._lock:
            self._matches[path] = signature, now
            self._matches.move_to_end(path)
            while len(self._matches) > self._capacity:
                self._matches.popitem(last=False)

    def _has(self, path: str, signature: Signature) -> bool:
        now = self._clock()
        with self._lock:
            match = self._matches.get(path)
            # A clock that was set back makes a match expire as well.
            if match is None or match[0] != signature or not 0 <= now - match[1] < self._max_age:
                self._matches.pop(path, None)
                return False
            self._matches.move_to_end(path)
            return True


@frozen
class VerifiedFile:
    """A file whose checksums matched in the state of the signature."""

    path: str
    name: str
    """The key of the data object."""
    signature: Signature
    verify: Callable[[], None]
    """Reads the whole file; CorruptData if it is damaged or gone."""

    def require_unchanged(self) -> None:
        """Raise if what was read from the file since it was verified may not be what was written.

        A file that is gone by now had its content to the end: an engine that had opened it can read it still.
        """
        try:
            now = signature_of(self.path)
        except FileNotFoundError:
            return
        if now == self.signature:
            return
        self.verify()
        if not now.has_same_content(self.signature):
            raise StorageFailure(f"{self.name}: this data object was written to while it was read (repeat the query)")
