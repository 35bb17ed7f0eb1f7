"""Where queries read from: files, standard input, URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol, TypeVar

from shoal.api.source_policy import SourcePolicy
from shoal.errors import InvalidInput, ShoalError, StorageFailure, Unsupported
from shoal.formats import registry
from shoal.formats.files import Piece, read_pieces, read_source
from shoal.formats.options import ReadOptions
from shoal.formats.splits import Split, read_split
from shoal.formats.streams import Source
from shoal.lang import plan
from shoal.model.values import Value
from shoal.storage.inputs import Input, open_input, open_request

Warn = Callable[[str], None]
_P = TypeVar("_P", bound=Piece)


class Position(Protocol):
    """Something that is being read."""

    def tell(self) -> int:
        """How many bytes of it were read."""


class Watch(Protocol):
    """Passes what is in an open file on, and may look at how far it was read."""

    def __call__(self, file: Position, values: Iterator[_P], /) -> Iterator[_P]: ...


Read = Callable[[Source, str, ReadOptions], Iterator[_P]]


def read_file(
    path: str, format_name: str = "auto", options: ReadOptions = ReadOptions(), watch: Watch | None = None
) -> Iterator[Value]:
    """The values in a file or behind a URL; errors get its name in front."""
    return _read(read_source, lambda: open_input(path), format_name, options, watch)


def read_file_pieces(
    path: str, format_name: str = "auto", options: ReadOptions = ReadOptions(), watch: Watch | None = None
) -> Iterator[Piece]:
    """The same values, in columns where the format has a reader for that."""
    return _read(read_pieces, lambda: open_input(path), format_name, options, watch)


def read_file_split(path: str, part: Split, options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """The values in a part of a file."""

    def read(source: Source, _: str, options: ReadOptions) -> Iterator[Piece]:
        return read_split(source, part, options)

    return _read(read, lambda: open_input(path), part.format_name, options, None)


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
    """The values in the answer to an HTTP request."""
    request = open_request if policy is None else policy.request
    return _read(read_source, lambda: request(url, method, headers, body), format_name, options, watch)


def _read(
    read: Read[_P],
    opener: Callable[[], tuple[str, Input]],
    format_name: str,
    options: ReadOptions,
    watch: Watch | None,
) -> Iterator[_P]:
    if format_name != "auto":
        registry.by_name(format_name).load_reader()
    name, file = opener()
    try:
        values = read(file, format_name, options)
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
    """The values of files, one file after the other. With `warn`, an unreadable file is reported and left."""
    files = (read_file(path, format_name, options, watch) for path in paths)
    return chain.from_iterable(files if warn is None else (_warned(values, warn) for values in files))


def _warned(values: Iterator[Value], warn: Warn) -> Iterator[Value]:
    try:
        yield from values
    except ShoalError as e:
        warn(str(e))


def scan_opener(
    options: ReadOptions, watch: Watch | None = None, policy: SourcePolicy | None = None
) -> Callable[[plan.Scan], Iterator[Value]]:
    """Opens the sources that a program names itself; with a policy, those that it allows."""
    open_file = open_input if policy is None else policy.file

    def open_scan(scan: plan.Scan) -> Iterator[Value]:
        match scan:
            case plan.FileScan(path, format_name):
                return _read(read_source, lambda: open_file(path), format_name, options, watch)
            case plan.HttpScan(url, format_name, method, headers, body):
                return read_request(url, format_name, options, method, headers, body.encode(), watch, policy)
        raise Unsupported('"from pool" cannot be used without a lake')

    return open_scan
