"""Values from files: opening, unwrapping, detecting; errors get the file's name in front."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure
from shoal.formats import registry
from shoal.formats.detect import open_source
from shoal.formats.options import ReadOptions
from shoal.formats.streams import Source
from shoal.model.values import Value

STDIN = "-"
_URL = re.compile(r"(?:https?|s3)://")


def is_url(path: str) -> bool:
    """Whether an input is to be fetched from somewhere else."""
    return _URL.match(path) is not None


def open_input(path: str) -> tuple[str, BinaryIO]:
    """A file to read and the name to call it by; `-` is standard input."""
    if path == STDIN and sys.stdin is None:
        raise StorageFailure("stdio:stdin: is closed")
    if path == STDIN:
        return "stdio:stdin", _Unseekable(sys.stdin.buffer)  # type: ignore[return-value]
    try:
        return path, open(path, "rb")
    except FileNotFoundError:
        raise NotFound(f"{path}: file does not exist") from None
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None


class _Unseekable:
    """Standard input is read from start to end, even where the shell made it a file."""

    def __init__(self, raw: BinaryIO) -> None:
        self.read = raw.read1 if hasattr(raw, "read1") else raw.read
        self.close = lambda: None

    def seekable(self) -> bool:
        return False


def read_file(path: str, format_name: str = "auto", options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values in a file."""
    if format_name != "auto":
        registry.by_name(format_name).load_reader()
    name, file = open_input(path)
    try:
        yield from read_source(file, format_name, options)
    except InvalidInput as e:
        raise InvalidInput(f"{name}: {e}") from e
    except ShoalError:
        raise
    except OSError as e:
        raise StorageFailure(f"{name}: {(e.strerror or str(e)).lower()}") from None
    finally:
        file.close()


def read_request(
    url: str,
    format_name: str,
    options: ReadOptions,
    method: str = "GET",
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes = b"",
) -> Iterator[Value]:
    """The values in the answer to an HTTP request."""
    raise StorageFailure(f"{url}: cannot be fetched")


def read_source(source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values in a source of known or unknown format, compressed or not."""
    found, plain = open_source(source, format_name, options)
    return found.load_reader()(plain, options)
