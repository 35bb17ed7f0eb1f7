"""Files that stay where they are: which ones a path or URL stands for, and reading them as they were once seen.

A version of a file is its size, and the time of its last change or what a bucket calls it. To open another version is
an error: what is known of the file is then no longer true.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from typing import TYPE_CHECKING
from urllib.parse import unquote

from shoal.errors import CorruptData, InvalidInput, NotFound, StorageFailure
from shoal.lazy import lazy
from shoal.model.node import frozen
from shoal.sources.inputs import STDIN, Input
from shoal.sources.policy import SourcePolicy
from shoal.storage.locations import public_name, require_obstore

if TYPE_CHECKING:
    from shoal.sources import s3
else:
    s3 = lazy("shoal.sources.s3")

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder that stands for null."""
_IGNORED = ("_", ".")
"""How the names of marks of success, checksums and metadata begin."""


@frozen
class FileVersion:
    """A file as it was at some time."""

    uri: str
    """An absolute path, or an s3 URL."""
    size: int
    modified: int = 0
    """When it was last written to, in nanoseconds since 1970; 0 for one in a bucket."""
    etag: str = ""
    """What a bucket calls this version."""


def is_bucket(uri: str) -> bool:
    """Whether a file is in a bucket."""
    return uri.startswith("s3://")


def absolute(uri: str) -> str:
    """A path from the root, or a URL as it is; InvalidInput for what cannot be read in place."""
    if is_bucket(uri):
        return uri
    scheme, mark, path = uri.partition("://")
    if uri == STDIN or (mark and scheme != "file") or "\0" in uri:
        raise InvalidInput(f"{public_name(uri)}: only files, folders and s3 URLs can be attached (load it instead)")
    return os.path.abspath(unquote(path) if mark else uri)


def find_files(uri: str, policy: SourcePolicy | None = None) -> Iterator[FileVersion]:
    """The file that a path or URL names, or all below the folder that it names, but for hidden ones.

    A policy limits where they may be, links followed.
    """
    uri = absolute(uri)
    if is_bucket(uri):
        if policy is not None:
            policy.require(uri)
        yield from _in_bucket(uri)
        return
    if policy is not None:
        policy.require(os.path.join(uri, "_"))
    try:
        for path in _below(uri) if os.path.isdir(uri) else [uri]:
            if policy is not None:
                policy.require(path)
            # A link may lead elsewhere later.
            real = path if policy is None else os.path.realpath(path)
            yield _version(real, os.stat(real))
    except FileNotFoundError:
        raise NotFound(f"{uri}: file does not exist") from None
    except OSError as e:
        raise StorageFailure(f"{uri}: {(e.strerror or str(e)).lower()}") from None


def _below(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith(_IGNORED))
        yield from (os.path.join(where, name) for name in sorted(names) if not name.startswith(_IGNORED))


def _version(path: str, status: os.stat_result) -> FileVersion:
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path}: not a regular file")
    return FileVersion(path, status.st_size, status.st_mtime_ns)


def _in_bucket(url: str) -> Iterator[FileVersion]:
    require_obstore(url)
    if not url.endswith("/"):
        try:
            yield FileVersion(url, *s3.head(url))
            return
        except NotFound:
            pass
    is_empty = True
    for key, size, etag in s3.below(url.rstrip("/") + "/"):
        if not any(part.startswith(_IGNORED) for part in key.split("/")) and not key.endswith("/"):
            is_empty = False
            yield FileVersion(f"{url.rstrip('/')}/{key}", size, 0, etag)
    if is_empty:
        raise NotFound(f"{url}: file does not exist")


def folder_values(uri: str) -> list[tuple[str, str | None]]:
    """The fields that the names of the folders right above a file give, as in `year=2024/month=3/x.parquet`."""
    values: list[tuple[str, str | None]] = []
    for folder in reversed(uri.split("/")[:-1]):
        name, mark, text = folder.partition("=")
        if not mark or not name:
            break
        values.append((unquote(name), None if text == _NULL_FOLDER else unquote(text)))
    return values[::-1]


# ---- reading


class OpenedFile:
    """A version of a file, open for reading."""

    def __init__(self, version: FileVersion) -> None:
        self._version = version
        self._file, self._local = _opened(version)
        self.read, self.seek, self.tell = self._file.read, self._file.seek, self._file.tell
        self.seekable, self.close = self._file.seekable, self._file.close

    def require_unchanged(self) -> None:
        """CorruptData if somebody wrote to the file since it was seen. A bucket sees to that with each read."""
        if self._local is not None:
            _require_same(self._version, os.fstat(self._local.fileno()))

    def __enter__(self) -> OpenedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(version: FileVersion) -> tuple[Input, BufferedReader | None]:
    if is_bucket(version.uri):
        require_obstore(version.uri)
        try:
            return s3.open_version(version.uri, version.size, version.etag, lambda: changed(version.uri)), None
        except NotFound:
            raise gone(version.uri) from None
    try:
        file = open(version.uri, "rb")  # noqa: SIM115 - the caller closes it
    except FileNotFoundError:
        raise gone(version.uri) from None
    except OSError as e:
        raise StorageFailure(f"{version.uri}: {(e.strerror or str(e)).lower()}") from None
    try:
        _require_same(version, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file, file


def _require_same(version: FileVersion, status: os.stat_result) -> None:
    if (status.st_size, status.st_mtime_ns) != (version.size, version.modified):
        raise changed(version.uri)


def changed(uri: str) -> CorruptData:
    """The error of a file that is not what it was."""
    return CorruptData(f"{uri}: this attached file has changed (restore it as it was, or: shoal detach {uri})")


def gone(uri: str) -> CorruptData:
    """The error of a file that is no longer there."""
    return CorruptData(f"{uri}: this attached file is gone (restore it as it was, or: shoal detach {uri})")
