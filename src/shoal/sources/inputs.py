"""What a query reads from: files, standard input and URLs, open and with a name to call them by."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from io import BufferedReader
from typing import Protocol

from shoal.errors import NotFound, StorageFailure
from shoal.sources.ranged import Forward

STDIN = "-"
_URL = re.compile(r"(?:https?|s3)://")


class Input(Protocol):
    """An open file. `tell` works on those that cannot seek, too: it says how much was read."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        ...

    def seekable(self) -> bool:
        """Whether `seek` works."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """As for files."""
        ...

    def tell(self) -> int:
        """As for files."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def is_url(path: str) -> bool:
    """Whether an input is to be fetched from somewhere else."""
    return _URL.match(path) is not None


def open_input(path: str) -> tuple[str, Input]:
    """A file to read and the name to call it by; `-` is standard input, read from start to end."""
    if is_url(path):
        remote = import_module("shoal.sources.remote")
        return remote.public_name(path), remote.open_url(path)
    if path == STDIN and sys.stdin is None:
        raise StorageFailure("stdio:stdin: is closed")
    if path == STDIN:
        raw = sys.stdin.buffer
        return "stdio:stdin", Forward(raw.read1 if hasattr(raw, "read1") else raw.read, lambda: None)
    try:
        return path, _with_position(open(path, "rb"))
    except FileNotFoundError:
        raise NotFound(f"{path}: file does not exist") from None
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None


def open_request(url: str, method: str, headers: tuple[tuple[str, str], ...], body: bytes) -> tuple[str, Input]:
    """The answer to an HTTP request, and its name."""
    remote = import_module("shoal.sources.remote")
    return remote.public_name(url), remote.open_request(url, method, headers, body)


def _with_position(file: BufferedReader) -> Input:
    """A pipe has no position of its own."""
    return file if file.seekable() else Forward(file.read1, file.close)
