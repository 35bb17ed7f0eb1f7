"""Data on its way to a service: the bytes of files as they are, anything else as ZNG.

It is read while it is sent, so that memory is bounded whatever its size. If the connection is lost it is sent again
from its beginning; what can be read only once is kept aside for that, up to a limit.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from shoal.api.options import ReadOptions, encode_read_options, for_load
from shoal.client.progress import tell_sent
from shoal.errors import InvalidInput, StorageFailure
from shoal.formats import registry
from shoal.formats.zng import stream as zng
from shoal.frames.inputs import Reading, checked_path, is_frame, read_inputs
from shoal.lazy import lazy
from shoal.model.values import Value
from shoal.sources.inputs import STDIN, is_url
from shoal.sources.reading import open_input
from shoal.storage.locations import public_name

if TYPE_CHECKING:
    from shoal.formats.arrow import reader as arrow_reader
else:
    arrow_reader = lazy("shoal.formats.arrow.reader")

AUTO = "auto"
_CHUNK = 1 << 18
_KEPT = 1 << 30
"""Bytes that are kept of what cannot be read again."""
_IN_MEMORY = 1 << 23
_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""What a header can hold as it is."""
_BYTES = (bytes, bytearray, memoryview)


class Unreadable(Exception):
    """What is sent cannot be read: not to be taken for a failure of the connection, after which it is sent again."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Upload:
    """Data as chunks of bytes, which can be had again as often as they are sent."""

    def __init__(self, read: Callable[[], Iterator[bytes]], format_name: str, source: str = "") -> None:
        self._read = read
        self.format_name = format_name
        self.source = source
        """What errors call it; "" for data without a name."""
        self.is_sent = False
        """Whether all of it was handed over when it was last sent."""

    @property
    def can_repeat(self) -> bool:
        """Whether it can be had once more."""
        return True

    def headers(self) -> dict[str, str]:
        """The headers that describe it."""
        return {"Shoal-Source": quote(self.source, safe=_SAFE)} if self.source else {}

    def open(self) -> Iterator[bytes]:
        """All of it, from the beginning; Unreadable if something is wrong with it."""
        self.is_sent = False
        try:
            for chunk in self._read():
                if chunk:  # an empty one would be the end
                    yield chunk
                    tell_sent(len(chunk))
        except Exception as e:
            raise Unreadable(e) from e
        self.is_sent = True

    def close(self) -> None:
        """Forget what was kept of it."""


class KeptUpload(Upload):
    """Data that can be read only once. What was read of it is kept, as long as it is not too much."""

    def __init__(self, chunks: Iterator[bytes], format_name: str, source: str = "") -> None:
        super().__init__(self._again, format_name, source)
        self._chunks = chunks
        self._kept: tempfile.SpooledTemporaryFile[bytes] | None = None
        self._size = 0
        self._is_kept = True

    @property
    def can_repeat(self) -> bool:
        return self._is_kept

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()

    def _again(self) -> Iterator[bytes]:
        if self._kept is None:
            self._kept = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - it is open until the load is done
        self._kept.seek(0)
        while chunk := self._kept.read(_CHUNK):
            yield chunk
        for chunk in self._chunks:
            self._keep(self._kept, chunk)
            yield chunk

    def _keep(self, kept: tempfile.SpooledTemporaryFile[bytes], chunk: bytes) -> None:
        """Keep a chunk, unless there is no room for it: then it is sent only once."""
        self._size += len(chunk)
        self._is_kept = self._is_kept and self._size <= _KEPT
        try:
            if self._is_kept:
                kept.write(chunk)
        except OSError:
            self._is_kept = False
        if not self._is_kept:
            kept.close()


def load_choices(upload: Upload, engine: str | None, options: ReadOptions) -> dict[str, str | None]:
    """The parameters that tell a service how to read an upload."""
    format_name = None if upload.format_name == AUTO else upload.format_name
    return {"format": format_name, "engine": engine, **encode_read_options(for_load(options))}


# ---- what callers give


@contextmanager
def open_uploads(data: Any, format_name: str, options: ReadOptions) -> Iterator[list[Upload]]:
    """What a caller gave, each file by itself, until it is loaded."""
    uploads = make_uploads(data, format_name, options)
    try:
        yield uploads
    finally:
        for upload in uploads:
            upload.close()


def make_uploads(data: Any, format_name: str, options: ReadOptions) -> list[Upload]:
    """The uploads of what a caller gave. A path without a file and a format that cannot be read are errors here."""
    if format_name != AUTO:
        registry.by_name(format_name).load_reader()
    reading = Reading(format_name, for_load(options))
    if is_frame(data):
        return [_of_values(_values_of(data))]
    if _is_raw(data):
        return [_of_raw(data, format_name)]
    if not isinstance(data, (list, tuple)):
        return [_of_values(read_inputs(data, reading))]
    for path in (item for item in data if isinstance(item, (str, os.PathLike))):
        checked_path(path)
    uploads: list[Upload] = []
    for is_raw, items in groupby(data, _is_raw):
        if is_raw:
            uploads.extend(_of_raw(item, format_name) for item in items)
        else:
            uploads.append(_of_values(read_inputs(list(items), reading)))
    return uploads or [_of_values(iter(()))]


def upload_values(data: Any, format_name: str, options: ReadOptions) -> Upload:
    """Everything that a caller gave as one upload of ZNG, read in this process."""
    if is_frame(data):
        return _of_values(_values_of(data))
    return _of_values(read_inputs(data, Reading(format_name, options)))


def _is_raw(item: Any) -> bool:
    """Whether something is bytes, or is read as such."""
    is_file = hasattr(item, "read") and hasattr(item, "close")
    return is_file or isinstance(item, (str, os.PathLike, *_BYTES))


def _of_raw(item: Any, format_name: str) -> Upload:
    if isinstance(item, _BYTES):
        view = memoryview(item).cast("B")
        return Upload(lambda: (bytes(view[i : i + _CHUNK]) for i in range(0, len(view), _CHUNK)), format_name)
    if isinstance(item, (str, os.PathLike)):
        return _of_path(checked_path(item), format_name)
    if isinstance(item, io.TextIOBase):
        raise InvalidInput("a file that was opened as text (open it with mode 'rb')")
    return _of_file(item, format_name)


def _of_path(path: str, format_name: str) -> Upload:
    if is_url(path):
        return Upload(lambda: _read_path(path), format_name, public_name(path))
    if path == STDIN or not (Path(path).is_file() or Path(path).is_dir()):
        return KeptUpload(_read_path(path), format_name, "stdio:stdin" if path == STDIN else path)
    open_input(path)[1].close()  # what cannot be opened is refused before anything is sent
    return Upload(lambda: _read_path(path), format_name, path)


def _read_path(path: str) -> Iterator[bytes]:
    name, file = open_input(path)
    try:
        yield from _chunks(name, file.read)
    finally:
        file.close()


def _of_file(file: Any, format_name: str) -> Upload:
    """What is in an open file from where it stands; the file stays open."""
    name = getattr(file, "name", None)
    source = name if isinstance(name, str) else ""
    if not hasattr(file, "seekable") or not file.seekable():
        return KeptUpload(_chunks(source, file.read), format_name, source)
    start = file.tell()

    def read() -> Iterator[bytes]:
        file.seek(start)
        return _chunks(source, file.read)

    return Upload(read, format_name, source)


def _chunks(name: str, read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Bytes until there are no more. An error of the file is not to be taken for one of the connection."""
    try:
        while chunk := read(_CHUNK):
            yield chunk
    except OSError as e:
        raise StorageFailure(f"{name or 'input'}: {(e.strerror or str(e)).lower()}") from None


def _of_values(values: Iterable[Value]) -> Upload:
    return KeptUpload(_as_zng(values), "zng")


def _as_zng(values: Iterable[Value]) -> Iterator[bytes]:
    out = io.BytesIO()
    writer = zng.Writer(out)
    for value in values:
        writer.write(value)
        if out.tell() >= _CHUNK:
            yield out.getvalue()
            out.seek(0)
            out.truncate()
    writer.close()
    yield out.getvalue()


# ---- DataFrames of Spark


def _values_of(frame: Any) -> Iterator[Value]:
    """The rows of a DataFrame of Spark, which come to this process part by part, never all at once."""
    pa: Any = import_module("pyarrow")
    for row in frame.mapInArrow(_packed, "part binary").toLocalIterator(prefetchPartitions=True):
        for batch in pa.ipc.open_stream(bytes(row[0])):
            for piece in arrow_reader.batches(batch):
                yield from piece.values()


def _packed(batches: Iterator[Any]) -> Iterator[Any]:
    """What a task does: each batch as bytes."""
    pa: Any = import_module("pyarrow")
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["part"])
