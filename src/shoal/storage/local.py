"""Objects in a directory, durable: an acknowledged write survives a power loss.

An object is written to a temporary file, synced, linked to its name, and the directory is synced. `link` fails if
the name is taken, so the file system decides races, and no reader ever sees half an object.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.storage.backoff import backoff
from shoal.storage.store import Created, Listed, check_key

_TURN = ".turn"
"""The lock file of a folder that is written to; not an object."""
_LONGEST_WAIT = 0.1
_PAUSE = 0.001
_TEMPORARY = ".aside-"
"""Prefix of the names of temporary files, which are not objects yet."""
_ATTEMPTS = 3
"""How often an object is written whose temporary file is swept."""
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class LocalStore:
    """A directory of the file system."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(os.path.realpath(root))
        self._durable: set[Path] = set()
        """Directories whose own entries this process has synced; another may have died between creating and syncing."""
        self._broken: StorageFailure | None = None

    @property
    def uri(self) -> str:
        return f"file://{self._root}"

    def local_file(self, key: str) -> str:
        """The path of an object."""
        return str(self._path(key))

    def _path(self, key: str) -> Path:
        """The path of a key; a link that leads out of the store is rejected."""
        path = os.path.join(self._root, check_key(key))
        folders = (path[: len(path) - len(key) + i] for i, letter in enumerate(key) if letter == "/")
        # Only directories below the root can be links. Checking more would slow down every read.
        if any(map(os.path.islink, folders)):
            parent = Path(os.path.realpath(os.path.dirname(path)))
            if parent != self._root and self._root not in parent.parents:
                raise InvalidInput(f"{key}: a link leads out of {self._root}")
        return Path(path)

    def get(self, key: str) -> bytes:
        with self._reading(key) as file:
            return _read(file, os.fstat(file).st_size)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._reading(key) as file:
            os.lseek(file, start, os.SEEK_SET)
            return _read(file, length)

    def size(self, key: str) -> int:
        with self._reading(key) as file:
            return os.fstat(file).st_size

    @property
    def has_own_clock(self) -> bool:
        """Only on a network file system, which cannot be recognised."""
        return False

    def modified(self, key: str) -> float:
        with self._reading(key) as file:
            return os.fstat(file).st_mtime

    @contextmanager
    def _reading(self, key: str) -> Iterator[int]:
        path = self._path(key)
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except _ABSENT:
            raise NotFound(f"{path}: no such object") from None
        except OSError as e:
            raise _failure(path, e) from None
        try:
            if stat.S_ISDIR(os.fstat(file).st_mode):
                raise NotFound(f"{path}: no such object")
            yield file
        except OSError as e:
            raise _failure(path, e) from None
        finally:
            os.close(file)

    def put(self, key: str, data: bytes) -> None:
        if self._write(self._path(key), data, os.rename) is not Created.LANDED:
            raise StorageFailure(f"{self._broken}")

    def create(self, key: str, data: bytes) -> Created:
        return self._write(self._path(key), data, os.link)

    def _write(self, path: Path, data: bytes, name: Callable[[Path, Path], None]) -> Created:
        """Write a temporary file and give it its name.

        A vacuum without a grace period may sweep the file before it has its name. Then it is written again.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            temporary = self._write_temporary(path, data)
            try:
                name(temporary, path)
            except FileExistsError:
                return self._make_durable(path, Created.LOST)
            except FileNotFoundError as e:
                if attempt == _ATTEMPTS:
                    raise _failure(path, e) from None
            except OSError as e:
                raise _failure(path, e) from None
            else:
                return self._make_durable(path, Created.LANDED)
            finally:
                _remove(temporary)
        raise AssertionError("the last attempt returns or raises")

    def _make_durable(self, path: Path, outcome: Created) -> Created:
        """Sync the directory, so that the object stays, whether this or another process wrote it; returns the outcome.

        After a failed sync a later one may succeed without writing anything, so the store stops accepting writes.
        """
        try:
            _sync(path.parent)
        except OSError as e:
            self._broken = _failure(path, e)
            return Created.UNKNOWN
        return outcome

    def _write_temporary(self, path: Path, data: bytes) -> Path:
        """Write data to a synced temporary file in the directory of an object."""
        temporary = path.parent / f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
        if self._broken is not None:
            raise StorageFailure(f"{self._broken} (an earlier sync failed: check the disk and start again)")
        try:
            self._make_directory(path.parent)
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _write(file, data)
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as e:
            _remove(temporary)
            raise _failure(path, e) from None
        return temporary

    def _make_directory(self, directory: Path) -> None:
        """Create a directory and its parents and sync each entry into its parent; once per process and directory."""
        is_inside = directory == self._root or self._root in directory.parents
        if directory in self._durable or (not is_inside and directory.is_dir()):
            return
        self._make_directory(directory.parent)
        is_new = False
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
            is_new = True
        try:
            _sync(directory.parent)
        except OSError:
            if is_new:
                with suppress(OSError):
                    os.rmdir(directory)
            raise
        self._durable.add(directory)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Walks the directories below the last complete one in the prefix."""
        start = prefix.rpartition("/")[0]
        top = self._path(start) if start else self._root
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder, name)
                key = path.relative_to(self._root).as_posix()
                if name.startswith(_TEMPORARY) or name == _TURN or not key.startswith(prefix):
                    continue
                with suppress(FileNotFoundError):
                    status = path.stat(follow_symlinks=False)
                    yield Listed(key, status.st_size, status.st_mtime)

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            os.unlink(path)
        except _ABSENT:
            return
        except OSError as e:
            raise _failure(path, e) from None

    def turn(self, prefix: str) -> AbstractContextManager[None]:
        """The turn of a writer of this machine at a journal."""
        return _locked(self._path(prefix))

    def sweep(self, older_than: float) -> int:
        """Delete the temporary files of crashed writers, at least this many seconds old; returns their number."""
        swept = 0
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    if name.startswith(_TEMPORARY) and time.time() - path.stat().st_mtime >= older_than:
                        path.unlink()
                        swept += 1
        return swept


def _read(file: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.read(file, length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _remove(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)


def _failure(path: Path, error: OSError) -> StorageFailure:
    return StorageFailure(f"{path}: {(error.strerror or str(error)).lower()}")


# ---- turns of writers


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, or continue without it after a short wait.

    Turns save work when many processes write to one journal; put-if-missing alone makes writes correct. The lock ends
    with the process that holds it.
    """
    file = _open_lock(folder / _TURN)
    try:
        if file is not None:
            _wait_for_lock(file)
        yield
    finally:
        if file is not None:
            os.close(file)


def _open_lock(path: Path) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return None


def _wait_for_lock(file: int) -> None:
    until = time.monotonic() + _LONGEST_WAIT
    for pause in backoff(_PAUSE, _PAUSE):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return
            time.sleep(pause)
        except OSError:
            return
        else:
            return
