"""What is brought once for all checkouts and processes: folders in the cache of the user, each under its digest.

A folder appears whole, by a rename, so that a process that sees it may use it. Bringing happens under one lock for all,
since Maven's own repository is not safe against two processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

_DIGITS = 16


class Unavailable(Exception):
    """The machine lacks a program that a part needs; the message says which."""


def cache_folder() -> Path:
    """Where jars are kept: `XDG_CACHE_HOME`, else `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "shoal" / "jars"


def find_program(name: str) -> Path:
    """A program on the PATH."""
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return Path(path)


def cached(name: str, pins: bytes, bring: Callable[[Path], None]) -> Path:
    """The folder of what some pins name. At first use it is brought into an empty folder."""
    folder = cache_folder() / f"{name}-{sha256(pins).hexdigest()[:_DIGITS]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.parent / "lock"):
            if not folder.is_dir():
                _bring_whole(folder, bring)
    return folder


def _bring_whole(folder: Path, bring: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        aside = Path(scratch, "content")
        aside.mkdir()
        bring(aside)
        aside.rename(folder)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process is within; the system ends the lock of one that is killed."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
