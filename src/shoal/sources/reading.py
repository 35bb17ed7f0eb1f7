"""Where queries read from: files, standard input, URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from shoal.api.options import ReadOptions, Watch
from shoal.errors import InvalidInput, ShoalError, StorageFailure
from shoal.formats import registry
from shoal.formats.detect import Piece, read_pieces, read_source
from shoal.formats.splits import Split, read_split
from shoal.formats.streams import Source
from shoal.model.values import Value
from shoal.sources.inputs import Input, open_input, open_request
from shoal.sources.policy import SourcePolicy

Warn = Callable[[str], None]
_P = TypeVar("_P", bound=Piece)


Read = Callable[[Source, str, ReadOptions], Iterator[_P]]


def read_file(
    path: str, format_name: str = "auto", options: ReadOptions = ReadOptions(), watch: Watch | None = None
) -> Iterator[Value]:
    """The values in a file or behind a URL; errors get its name in front."""
    return read_opened(read_source, lambda: open_input(path), format_name, options, watch)


def read_file_pieces(
    path: str, format_name: str = "auto", options: ReadOptions = ReadOptions(), watch: Watch | None = None
) -> Iterator[Piece]:
    """The same values, in columns where the format has a reader for that."""
    return read_opened(read_pieces, lambda: open_input(path), format_name, options, watch)


def read_file_split(path: str, part: Split, options: ReadOptions = ReadOptions()) -> Iterator[Piece]:
    """The values in a part of a file."""

    def read(source: Source, _: str, options: ReadOptions) -> Iterator[Piece]:
        return read_split(source, part, options)

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
    """The values in the answer to an HTTP request."""
    request = open_request if policy is None else policy.request
    return read_opened(read_source, lambda: request(url, method, headers, body), format_name, options, watch)


def read_opened(
    read: Read[_P],
    opener: Callable[[], tuple[str, Input]],
    format_name: str,
    options: ReadOptions,
    watch: Watch | None,
) -> Iterator[_P]:
    """What `read` finds in an input that `opener` opens; errors get the name of the input in front."""
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
