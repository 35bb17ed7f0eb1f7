"""Claiming a name in a store, for good: three outcomes become two, or an OutcomeUnknown.

What a store says of a create is not always what it did. So the object is read again, and who finds its own bytes
there creates them once more: that it can be read does not mean that it survives a loss of power, since whoever wrote
it may have died before its sync.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from shoal.errors import NotFound, OutcomeUnknown, StorageFailure
from shoal.ids import Id, to_text
from shoal.storage.store import Created, ObjectStore

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on when the store fails, in seconds, and how often when it contradicts itself."""

    deadline: float = 120.0
    refusals: int = 20


def claim(store: ObjectStore, key: str, data: bytes, patience: Patience) -> bool:
    """Whether an object is ours: True if it is there with our bytes, False if somebody else's is there.

    StorageFailure if it is certain that nothing became visible, OutcomeUnknown if that cannot be found out.
    """
    until = time.monotonic() + patience.deadline
    refusals, may_have_landed = 0, False
    for pause in pauses():
        try:
            outcome = store.create(key, data)
        except StorageFailure as e:
            raise (OutcomeUnknown(f"{key}: {e}") if may_have_landed else e) from e
        if outcome is Created.LANDED:
            return True
        may_have_landed = True
        found = _read(store, key, until)
        if found is not None:
            return found == data and confirm(store, key, data)
        refusals += outcome is Created.LOST
        if refusals > patience.refusals or time.monotonic() > until:
            break
        time.sleep(pause)
    raise OutcomeUnknown(f"{store.uri}/{key}: the store does not say what became of a create")


def unknown(op: Id, cause: OutcomeUnknown) -> OutcomeUnknown:
    """The same, of an operation that can be repeated by its id."""
    text = f"it is not known whether operation {to_text(op)} was done: {cause} (to repeat it with the same id is safe)"
    return OutcomeUnknown(text, to_text(op))


def confirm(store: ObjectStore, key: str, data: bytes) -> bool:
    """True when the store says that a name is taken for good; OutcomeUnknown if it does not."""
    try:
        outcome = store.create(key, data)
    except StorageFailure as e:
        raise OutcomeUnknown(f"{key}: {e}") from e
    if outcome is Created.UNKNOWN:
        raise OutcomeUnknown(f"{store.uri}/{key}: the store does not say what became of a create")
    return True


def _read(store: ObjectStore, key: str, until: float) -> bytes | None:
    """What is there; None if nothing is."""
    for pause in pauses():
        try:
            return store.get(key)
        except NotFound:
            return None
        except StorageFailure as e:
            if time.monotonic() > until:
                raise OutcomeUnknown(f"{key}: {e}") from e
            time.sleep(pause)
    return None


def pauses() -> Iterator[float]:
    """Ever longer pauses, each cut by chance so that writers who met once do not meet again."""
    pause = _FIRST_PAUSE
    while True:
        yield random.uniform(0, pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
