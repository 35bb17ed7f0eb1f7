"""Claiming a key in a store, for good: three outcomes become two, or an OutcomeUnknown.

What a store answers to a create is not always what it did. So the object is read again, and a writer that finds its own
bytes there creates them once more: an object that can be read need not survive a loss of power, since its writer may
have died before the sync.
"""

from __future__ import annotations

import time

from shoal.errors import NotFound, OutcomeUnknown, StorageFailure
from shoal.ids import Id, to_text
from shoal.model.node import frozen
from shoal.storage.backoff import backoff
from shoal.storage.store import Created, ObjectStore


@frozen
class Patience:
    """How long to go on when the store fails, in seconds, and how often when it contradicts itself."""

    deadline: float = 120.0
    refusals: int = 20


def claim(store: ObjectStore, key: str, data: bytes, patience: Patience) -> bool:
    """Whether an object is ours: True if it is there with our bytes, False if it has the bytes of another writer.

    StorageFailure if it is certain that nothing became visible, OutcomeUnknown if that cannot be found out.
    """
    until = time.monotonic() + patience.deadline
    refusals, may_have_landed = 0, False
    for pause in backoff():
        try:
            outcome = store.create(key, data)
        except StorageFailure as e:
            raise (OutcomeUnknown(f"{key}: {e}") if may_have_landed else e) from e
        if outcome is Created.LANDED:
            return True
        may_have_landed = True
        present = _read(store, key, until)
        if present is not None:
            return present == data and confirm(store, key, data)
        refusals += outcome is Created.LOST
        if refusals > patience.refusals or time.monotonic() > until:
            break
        time.sleep(pause)
    raise OutcomeUnknown(f"{store.uri}/{key}: the store does not say what became of a create")


def unknown(op: Id, cause: OutcomeUnknown) -> OutcomeUnknown:
    """The error for an operation that can be repeated by its id."""
    text = f"it is not known whether operation {to_text(op)} was done: {cause} (to repeat it with the same id is safe)"
    return OutcomeUnknown(text, to_text(op))


def confirm(store: ObjectStore, key: str, data: bytes) -> bool:
    """True when the store says that a key is taken for good; OutcomeUnknown if it does not."""
    try:
        outcome = store.create(key, data)
    except StorageFailure as e:
        raise OutcomeUnknown(f"{key}: {e}") from e
    if outcome is Created.UNKNOWN:
        raise OutcomeUnknown(f"{store.uri}/{key}: the store does not say what became of a create")
    return True


def _read(store: ObjectStore, key: str, until: float) -> bytes | None:
    """The bytes of an object; None if there is none."""
    for pause in backoff():
        try:
            return store.get(key)
        except NotFound:
            return None
        except StorageFailure as e:
            if time.monotonic() > until:
                raise OutcomeUnknown(f"{key}: {e}") from e
            time.sleep(pause)
    return None
