"""Whether a store keeps its word on creates. Some take a put-if-missing for a put and say nothing about it."""

from __future__ import annotations

from contextlib import suppress
from secrets import token_hex

from shoal.errors import NotFound, StorageFailure, Unsupported
from shoal.storage.store import Created, ObjectStore

_TRIES = 5
_FIRST, _SECOND = b"first", b"second"


def check_creates(store: ObjectStore) -> None:
    """Return if a second create of a name fails; Unsupported if it does not.

    StorageFailure if the store does not say clearly what it did. A create of which nothing was heard may land
    later and leave a few bytes under `probe/`. A cache in between must not answer for what is there.
    """
    for _ in range(_TRIES):
        key = f"probe/{token_hex(16)}"
        try:
            if _is_there(store, key) and _is_refused(store, key):
                return
        finally:
            with suppress(StorageFailure):  # that a store forbids to delete is no reason not to use it
                store.delete(key)
    raise StorageFailure(f"{store.uri}: does not say what became of a create, in {_TRIES} tries (try again later)")


def _is_there(store: ObjectStore, key: str) -> bool:
    """Whether a first create landed, by its outcome or by reading."""
    if store.create(key, _FIRST) is Created.LANDED:
        return True
    return _read(store, key) == _FIRST


def _is_refused(store: ObjectStore, key: str) -> bool:
    """Whether a second create is turned down; False if that is not known."""
    outcome = store.create(key, _SECOND)
    found = _read(store, key)
    if outcome is Created.LANDED or found == _SECOND:
        raise Unsupported(
            f"{store.uri}: the store ignores put-if-missing, and Shoal would lose commits there"
            " (use a store that honours If-None-Match)"
        )
    if found != _FIRST:
        raise Unsupported(f"{store.uri}: an object that was created does not read back (use a consistent store)")
    return outcome is Created.LOST


def _read(store: ObjectStore, key: str) -> bytes | None:
    with suppress(NotFound):
        return store.get(key)
    return None
