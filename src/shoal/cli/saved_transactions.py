"""Transactions between commands: each is a file until it ends, in the directory `.shoal_transactions` beside HEAD.

A file has what `save` of the transaction gives. What a command stages is in it only once the file was written again, so
commands that stage into one transaction take turns: they lock its file. A file is replaced by another one with the same
name, and who has waited for the lock of the old one looks again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shoal.api.lake_transaction import LakeTransaction
from shoal.cli.head import head_directory
from shoal.cli.query_flags import print_warning
from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.ids import parse, to_text
from shoal.model.node import frozen

_FOLDER = ".shoal_transactions"
_ENDING = ".json"


@frozen
class Saved:
    """A transaction that is open, as far as this user knows."""

    lake: str
    """The URI of its lake."""
    id: str
    places: tuple[str, ...]
    expires: float
    """In seconds since 1970."""
    text: str
    """What `lake.resume` takes."""

    @property
    def path(self) -> Path:
        """The file that it is kept in."""
        return _path(self.id)

    @classmethod
    def of(cls, lake: str, transaction: LakeTransaction) -> Saved:
        """What to keep of a transaction."""
        return cls(lake, transaction.id, transaction.places, transaction.expires, transaction.save())


@dataclass(slots=True)
class Held:
    """A saved transaction that no other command works with."""

    saved: Saved

    def keep(self, transaction: LakeTransaction) -> None:
        """Keep what has been staged."""
        write(Saved.of(self.saved.lake, transaction))

    def remove(self) -> None:
        """Forget it: it has ended."""
        self.saved.path.unlink(missing_ok=True)


def write(saved: Saved) -> None:
    """Keep a transaction, in the place of what was kept of it before."""
    path = saved.path
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fields = {"lake": saved.lake, "places": saved.places, "expires": saved.expires, "saved": saved.text}
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            temporary.unlink()
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as e:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _failure(path, e) from None


def open_on(lake: str) -> list[Saved]:
    """The transactions that are open on a lake, oldest first."""
    return [saved for saved in _all(print_warning) if saved.lake == lake and saved.expires >= time.time()]


def forget_expired() -> None:
    """Remove the files of transactions that can no longer be committed, on all lakes."""
    for saved in _all():
        if saved.expires < time.time():
            saved.path.unlink(missing_ok=True)


def find(lake: str, ident: str | None) -> Saved:
    """The transaction of an id, or without one the only one that is open on the lake."""
    if ident is not None:
        text = to_text(parse(ident))
        saved = _read(_path(text))
        if saved is None or saved.lake != lake:
            raise NotFound(f"{text}: this user has no such transaction open on this lake (see: shoal transaction ls)")
        return saved
    opened = open_on(lake)
    if not opened:
        raise NotFound("no transaction is open on this lake (begin one with: shoal transaction begin POOL...)")
    if len(opened) > 1:
        ids = ", ".join(each.id for each in opened)
        raise InvalidInput(f"{len(opened)} transactions are open on this lake (choose one with -t: {ids})")
    return opened[0]


@contextmanager
def held(lake: str, ident: str | None) -> Iterator[Held]:
    """The transaction as `find` gives it, which is locked until the end of the block."""
    chosen = find(lake, ident)
    with _locked(chosen.path):
        # Another command may have staged something into it meanwhile, or ended it.
        yield Held(find(lake, chosen.id))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    while True:
        try:
            file = path.open()
        except FileNotFoundError:
            yield  # it has ended, as the caller will see
            return
        except OSError as e:
            raise _failure(path, e) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_still(path, file):
                yield
                return


def _is_still(path: Path, file: IO[str]) -> bool:
    """Whether a file is still the one with this name."""
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _all(warn: Callable[[str], None] | None = None) -> Iterator[Saved]:
    """All that can be read. Files that cannot be are left out, and told to `warn`: one of them stops no other."""
    for path in sorted(_directory().glob(f"*{_ENDING}")):
        try:
            saved = None if path.name.startswith(".") else _read(path)
        except (InvalidInput, StorageFailure) as e:
            if warn is not None:
                warn(str(e))
            continue
        if saved is not None:
            yield saved


def _read(path: Path) -> Saved | None:
    """What a file has; None if there is none."""
    try:
        fields = json.loads(path.read_text())
        lake, places, expires, text = (fields[name] for name in ("lake", "places", "expires", "saved"))
        return Saved(str(lake), path.name.removesuffix(_ENDING), tuple(places), float(expires), str(text))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise _failure(path, e) from None
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(f"{path}: not a saved transaction (remove this file)") from None


def _directory() -> Path:
    return head_directory() / _FOLDER


def _path(ident: str) -> Path:
    return _directory() / f"{ident}{_ENDING}"


def _failure(path: Path, e: OSError) -> StorageFailure:
    return StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}")
