"""Requests that may be repeated: which operation a key of a caller stands for, and what was asked under it.

The id of an operation says when it was made, and so cannot be made of the key again. It is chosen when the key is first
seen, and the record under the name of caller and key keeps it for later requests with that key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import Conflict, CorruptData, NotFound
from shoal.ids import Id, new
from shoal.lake.claims import Patience, claim
from shoal.lake.sealed import seal, unseal
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.fields import get_data, get_id, id_value, named
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.storage.store import ObjectStore, dropping_damage

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = lazy("hashlib")

REQUESTS = "requests"
"""The folder, in the root of a lake. A vacuum takes what is older than its grace period."""


@frozen
class RequestRecord:
    """The operation that a key stands for, and a digest of the request."""

    op: Id
    digest: bytes


@frozen
class Claimed:
    """The operation to do, and whether the same was asked before: then it may have been done."""

    op: Id
    is_repeated: bool


def claim_request(store: ObjectStore, caller: str, key: str, digest: bytes, op: Id | None = None) -> Claimed:
    """The operation that a key of a caller stands for: `op`, or a new one, if nobody has come with it yet.

    Conflict if something else was asked under the same key. What belongs to the request beside its body, such as the
    pool, is part of the digest. OutcomeUnknown, as long as the record is not there for good: nothing has been done.
    """
    path = _path(caller, key)
    record = _read(store, path)
    if record is None:
        own = RequestRecord(new() if op is None else op, digest)
        if claim(store, path, seal([_format(own)], path), Patience()):
            return Claimed(own.op, False)
        record = _read(store, path)
    if record is None:
        raise Conflict(f"{key}: this key was forgotten while it was asked for (use a new one)")
    if record.digest != digest:
        raise Conflict(f"{key}: this key came with another request before (use a new one)")
    return Claimed(record.op, True)


def find_request(store: ObjectStore, caller: str, key: str, digest: bytes) -> Id | None:
    """The operation that the same request began before; None if it did not."""
    record = _read(store, _path(caller, key))
    return record.op if record is not None and record.digest == digest else None


def _path(caller: str, key: str) -> str:
    name = hashlib.sha256(b"%d %b %b" % (len(caller.encode()), caller.encode(), key.encode())).hexdigest()
    return f"{REQUESTS}/{name}.zng"


def _read(store: ObjectStore, path: str) -> RequestRecord | None:
    try:
        with dropping_damage(store, path):
            values = unseal(store.get(path), path)
    except NotFound:
        return None
    if not values:
        raise CorruptData(f"{path}: a record of a request without its fields")
    return RequestRecord(get_id(values[0], "op", path), get_data(values[0], "digest", path))


def _format(record: RequestRecord) -> Value:
    return named("Request", ("op", id_value(record.op)), ("digest", Value(t.BYTES, record.digest)))
