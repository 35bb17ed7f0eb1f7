"""HEAD: the pool and branch that commands work on unless -use names others. Each lake has its own.

They are stored in the file `.shoal_head`, a line for each lake: `pool@branch`, a tab, and the location of the lake. A
line without a location, as earlier versions wrote it, counts for lakes that have no line of their own.
"""

from __future__ import annotations

import os
from pathlib import Path

from shoal.cli.flags import Parsed, UsageError
from shoal.cli.lake_flags import lake_location, variable
from shoal.client import opening
from shoal.errors import InvalidInput, StorageFailure
from shoal.model.node import frozen

_FILE = ".shoal_head"
_MAIN = "main"
_ANY_LAKE = ""


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
        raise UsageError("default pool and branch unset (name them with -use pool@branch, or once with: shoal use)")
    return head


def find_head(args: Parsed) -> Head | None:
    """The pool and branch of -use or HEAD; None if neither is set."""
    text = args["use"] if args["p"] is None else args["p"]
    return read_head(args) if text is None else parse_head(text, args)


def parse_head(text: str, args: Parsed) -> Head:
    """Parse `pool`, `pool@branch`, or `@branch` for a branch of the pool in use."""
    pool, at, commitish = text.partition("@")
    if "@" in commitish or (at and not commitish) or not text:
        raise UsageError(f"invalid commitish: {text!r} (write pool, pool@branch, pool@commit or @branch)")
    if not pool:
        current = read_head(args)
        if current is None:
            raise UsageError("default pool unset")
        pool = current.pool
    return Head(pool, commitish or _MAIN)


def read_head(args: Parsed) -> Head | None:
    """The stored HEAD of the lake; None if there is none."""
    heads = _read_heads()
    text = heads.get(_lake(args), heads.get(_ANY_LAKE))
    if text is None:
        return None
    pool, at, commitish = text.partition("@")
    if not pool or not at or not commitish or not text.isprintable():
        raise InvalidInput(f"{_path()}: not a valid pool@branch (reset it with: shoal use pool@branch)")
    return Head(pool, commitish)


def write_head(args: Parsed, head: Head) -> None:
    """Store HEAD of the lake."""
    path = _path()
    heads = {**_read_heads(), _lake(args): str(head)}
    lines = [f"{text}\t{lake}" if lake else text for lake, text in heads.items()]
    temporary = path.with_name(f"{_FILE}.{os.getpid()}")
    try:
        temporary.write_text("".join(f"{line}\n" for line in lines))
        temporary.replace(path)
    except OSError as e:
        temporary.unlink(missing_ok=True)
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None


def _read_heads() -> dict[str, str]:
    """The lines of the file, by the locations of their lakes."""
    path = _path()
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: not valid UTF-8 (remove it, then choose a pool with: shoal use)") from None
    parts = (line.partition("\t") for line in lines if line.strip())
    return {lake: text.strip() for text, _, lake in parts}


def _lake(args: Parsed) -> str:
    return opening.canonical_uri(lake_location(args))


def head_directory() -> Path:
    """Where commands keep what they tell each other."""
    return Path(variable("HEAD_DIR") or Path.home())


def _path() -> Path:
    return head_directory() / _FILE
