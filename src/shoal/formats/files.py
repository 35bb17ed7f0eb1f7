"""Values from files and URLs: opening, unwrapping, detecting; errors get the file's name in front."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from io import BufferedReader

from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure
from shoal.formats import registry
from shoal.formats.detect import open_source
from shoal.formats.options import ReadOptions
from shoal.formats.ranged import Forward
from shoal.formats.remote import Input, open_request, open_url, public_name
from shoal.formats.streams import Source
from shoal.model.values import Value

STDIN = "-"
_URL = re.compile(r"(?:https?|s3)://")
Watch = Callable[[Input, Iterator[Value]], Iterator[Value]]
"""Passes the values of an open file on, and may look at how far it was read."""


def is_url(path: str) -> bool:
    """Whether an input is to be fetched from somewhere else."""
    return _URL.match(path) is not None


def open_input(path: str) -> tuple[str, Input]:
    """A file to read and the name to call it by; `-` is standard input, read from start to end."""
    if is_url(path):
        return public_name(path), open_url(path)
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


def _with_position(file: BufferedReader) -> Input:
    """A pipe has no position of its own."""
    return file if file.seekable() else Forward(file.read1, file.close)


def read_file(
    path: str, format_name: str = "auto", options: ReadOptions = ReadOptions(), watch: Watch | None = None
) -> Iterator[Value]:
    """The values in a file."""
    return _read(lambda: open_input(path), format_name, options, watch)


def read_request(
    url: str,
    format_name: str,
    options: ReadOptions,
    method: str = "GET",
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes = b"",
    watch: Watch | None = None,
) -> Iterator[Value]:
    """The values in the answer to an HTTP request."""
    return _read(lambda: (public_name(url), open_request(url, method, headers, body)), format_name, options, watch)


def _read(
    opener: Callable[[], tuple[str, Input]], format_name: str, options: ReadOptions, watch: Watch | None
) -> Iterator[Value]:
    if format_name != "auto":
        registry.by_name(format_name).load_reader()
    name, file = opener()
    try:
        values = read_source(file, format_name, options)
        yield from values if watch is None else watch(file, values)
    except InvalidInput as e:
        raise InvalidInput(f"{name}: {e}") from e
    except ShoalError:
        raise
    except OSError as e:
        raise StorageFailure(f"{name}: {(e.strerror or str(e)).lower()}") from None
    finally:
        file.close()


def read_source(source: Source, format_name: str = "auto", options: ReadOptions = ReadOptions()) -> Iterator[Value]:
    """The values in a source of known or unknown format, compressed or not."""
    found, plain = open_source(source, format_name, options)
    return found.load_reader()(plain, options)
