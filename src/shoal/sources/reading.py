"""Opens files, standard input and URLs, and reads the values in them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from shoal.api.options import ReadOptions, Watch
from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure
from shoal.formats import registry
from shoal.formats.detect import read_pieces, read_source
from shoal.formats.splits import Split, read_split
from shoal.formats.streams import Place, Source
from shoal.lazy import lazy
from shoal.model.values import Value
from shoal.sources.inputs import STDIN, Forward, Input, is_url
from shoal.sources.policy import SourcePolicy
from shoal.storage.locations import public_name, require_obstore

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece
    from shoal.sources import http, s3
else:
    http = lazy("shoal.sources.http")
    s3 = lazy("shoal.sources.s3")

Warn = Callable[[str], None]
_P = TypeVar("_P", bound="Piece")
Read = Callable[[Source, str, ReadOptions, Place], Iterator[_P]]


# ---- opening


def open_input(path: str) -> tuple[str, Input]:
    """Open a file, a URL or standard input (`-`); with the name that messages call it by."""
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


def open_url(url: str) -> Input:
    """Open what an http, https or s3 URL names."""
    if not url.startswith("s3:"):
        return http.open_url(url)
    require_obstore(url)
    return s3.open_url(url)


def _open_request(url: str, method: str, headers: tuple[tuple[str, str], ...], body: bytes) -> tuple[str, Input]:
    """Send an HTTP request and open its response."""
    return public_name(url), http.open_request(url, method, headers, body)


def _with_position(file: BufferedReader) -> Input:
    """A pipe has no position of its own."""
    return file if file.seekable() else Forward(file.read1, file.close)


# ---- reading


def read_file(
    path: str, format_name: str = "auto", options: ReadOptions = ReadOptions(), watch: Watch | None = None
) -> Iterator[Value]:
    """The values in a file or behind a URL; errors begin with its name."""
    return read_opened(read_source, lambda: open_input(path), format_name, options, watch)


def read_file_pieces(
    path: str, format_name: str = "auto", options: ReadOptions = ReadOptions(), watch: Watch | None = None
) -> Iterator[Piece]:
    """The values in a file or behind a URL, as columns where the format has a columnar reader."""
    return read_opened(read_pieces, lambda: open_input(path), format_name, options, watch)


def read_file_split(path: str, part: Split, options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """The values in a split of a file."""

    def read(source: Source, _: str, options: ReadOptions, place: Place) -> Iterator[Piece]:
        return read_split(source, part, options, place)

    return read_opened(read, lambda: open_input(path), part.format_name, options, None)


def read_request(
    url: str,
    format_name: str,
    options: ReadOptions,
    method: str = "GET",
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes = b"",
    watch: Watch | None = None,
    policy: SourcePolicy | None = None,
) -> Iterator[Value]:
    """The values in the response to an HTTP request."""
    request = _open_request if policy is None else policy.request
    return read_opened(read_source, lambda: request(url, method, headers, body), format_name, options, watch)


def read_opened(
    read: Read[_P],
    opener: Callable[[], tuple[str, Input]],
    format_name: str,
    options: ReadOptions,
    watch: Watch | None,
) -> Iterator[_P]:
    """Open an input and read it with `read`; errors begin with the name of the input."""
    if format_name != "auto":
        registry.by_name(format_name).load_reader()
    name, file = opener()
    try:
        values = read(file, format_name, options, Place(name))
        yield from values if watch is None else watch(file, values)
    except InvalidInput as e:
        raise InvalidInput(f"{name}: {e}") from e
    except ShoalError:
        raise
    except OSError as e:
        raise StorageFailure(f"{name}: {(e.strerror or str(e)).lower()}") from None
    finally:
        file.close()


def read_files(
    paths: Iterable[str],
    format_name: str,
    options: ReadOptions,
    warn: Warn | None = None,
    watch: Watch | None = None,
) -> Iterator[Value]:
    """The values of files, one file after the other.

    With `warn`, a file that cannot be opened, or whose format is not recognized, is reported and skipped, as long as
    there are others. An error further inside a file is raised all the same.
    """
    files = (read_file(path, format_name, options, watch) for path in paths)
    return chain.from_iterable(files) if warn is None else _skip_unreadable(files, format_name, warn)


def _skip_unreadable(files: Iterator[Iterator[Value]], format_name: str, warn: Warn) -> Iterator[Value]:
    is_any_read = False
    for values in files:
        try:
            first = next(values, None)
        except ShoalError as e:
            if isinstance(e, InvalidInput) and format_name != "auto":
                raise
            warn(str(e))
            continue
        is_any_read = True
        if first is not None:
            yield first
            yield from values
    if not is_any_read:
        raise InvalidInput("no input specified: use a command-line file or a Zed source operator")
