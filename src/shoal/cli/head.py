"""HEAD: the pool and branch that commands work on when -use does not say so, kept in the file `.shoal_head`."""

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
    """A pool, and a branch, tag, commit or time in it."""

    pool: str
    commitish: str = _MAIN

    def __str__(self) -> str:
        return f"{self.pool}@{self.commitish}"


def head_of(args: Parsed) -> Head:
    """The pool and branch to work on."""
    found = find_head(args)
    if found is None:
        raise InvalidInput("default pool and branch unset (name them with -use pool@branch, or once with: shoal use)")
    return found


def find_head(args: Parsed) -> Head | None:
    """The pool and branch to work on; None if neither a flag nor HEAD says so."""
    given = args["use"] if args["p"] is None else args["p"]
    return read_head() if given is None else parse_head(given)


def parse_head(text: str) -> Head:
    """What `pool`, `pool@branch` or, with the pool that is in use, `@branch` stands for."""
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
    """What is in use; None if nothing is."""
    path = _path()
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise StorageFailure(f"{path}: cannot be read: {e} (set it anew with: shoal use)") from None
    pool, at, commitish = text.partition("@")
    if not pool or not at or not commitish or not text.isprintable():
        raise InvalidInput(f"{path}: holds no pool@branch (set it anew with: shoal use)")
    return Head(pool, commitish)


def write_head(head: Head) -> None:
    """Use a pool and branch from now on."""
    path = _path()
    aside = path.with_name(f"{_FILE}.{os.getpid()}")
    try:
        aside.write_text(f"{head}\n")
        aside.replace(path)
    except OSError as e:
        aside.unlink(missing_ok=True)
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None


def _path() -> Path:
    return Path(variable("HEAD_DIR") or Path.home()) / _FILE
