"""Where queries read from: files, standard input, URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from shoal.errors import ShoalError, Unsupported
from shoal.formats.files import Watch, read_file, read_request
from shoal.formats.options import ReadOptions
from shoal.lang import plan
from shoal.model.values import Value

Warn = Callable[[str], None]


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


def scan_opener(options: ReadOptions, watch: Watch | None = None) -> Callable[[plan.Scan], Iterator[Value]]:
    """Opens the sources that a program names itself."""

    def open_scan(scan: plan.Scan) -> Iterator[Value]:
        match scan:
            case plan.FileScan(path, format_name):
                return read_file(path, format_name, options, watch)
            case plan.HttpScan(url, format_name, method, headers, body):
                return read_request(url, format_name, options, method, headers, body.encode(), watch)
        raise Unsupported('"from pool" cannot be used without a lake')

    return open_scan
