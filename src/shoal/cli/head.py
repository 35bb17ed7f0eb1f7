"""HEAD: the pool and branch that commands work on unless -use names others, stored in the file `.shoal_head`."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import variable
from shoal.errors import InvalidInput, StorageFailure
from shoal.model.node import frozen

_FILE = ".shoal_head"
_MAIN = "main"


@frozen
class Head:
    """A pool and a commitish: a branch, tag, commit or time in it."""

    pool: str
    commitish: str = _MAIN

    def __str__(self) -> str:
        return f"{self.pool}@{self.commitish}"


def head_of(args: Parsed) -> Head:
    """The pool and branch to work on; InvalidInput if there are none."""
    head = find_head(args)
    if head is None:
        raise InvalidInput("default pool and branch unset (name them with -use pool@branch, or once with: shoal use)")
    return head


def find_head(args: Parsed) -> Head | None:
    """The pool and branch of -use or HEAD; None if neither is set."""
    text = args["use"] if args["p"] is None else args["p"]
    return read_head() if text is None else parse_head(text)


def parse_head(text: str) -> Head:
    """Parse `pool`, `pool@branch`, or `@branch` for a branch of the pool in use."""
    pool, at, commitish = text.partition("@")
    if "@" in commitish or (at and not commitish) or not text:
        raise InvalidInput(f"invalid commitish: {text!r} (write pool, pool@branch, pool@commit or @branch)")
    if not pool:
        current = read_head()
        if current is None:
            raise InvalidInput("default pool unset")
        pool = current.pool
    return Head(pool, commitish or _MAIN)


def read_head() -> Head | None:
    """The stored HEAD; None if there is none."""
    path = _path()
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise StorageFailure(f"{path}: cannot be read: {e} (reset it with: shoal use pool@branch)") from None
    pool, at, commitish = text.partition("@")
    if not pool or not at or not commitish or not text.isprintable():
        raise InvalidInput(f"{path}: not a valid pool@branch (reset it with: shoal use pool@branch)")
    return Head(pool, commitish)


def write_head(head: Head) -> None:
    """Store HEAD."""
    path = _path()
    temporary = path.with_name(f"{_FILE}.{os.getpid()}")
    try:
        temporary.write_text(f"{head}\n")
        temporary.replace(path)
    except OSError as e:
        temporary.unlink(missing_ok=True)
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None


def _path() -> Path:
    return Path(variable("HEAD_DIR") or Path.home()) / _FILE
