"""Requests that may be repeated: the id of the operation that a request with an idempotency key stands for."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from shoal.errors import InvalidInput
from shoal.ids import to_text
from shoal.lake.branches import as_id
from shoal.lake.requests import claim_request, find_request
from shoal.storage.store import ObjectStore

_KEY = re.compile(r"[!-~]{1,200}")


def check_key(key: str) -> str:
    """The key itself, if it may be one."""
    if not _KEY.fullmatch(key):
        raise InvalidInput("the header Idempotency-Key has to be 1 to 200 letters, digits or signs of ASCII")
    return key


@dataclass(frozen=True, slots=True)
class Keyed:
    """A request with a key."""

    subject: str
    key: str
    request: str
    """All of it but its body."""
    body: bytes
    """A hash of that."""

    def operation(self, store: ObjectStore) -> str:
        """The id of the operation; Conflict if the same key came with another request.

        A key that is an id becomes the id of the operation, so that a client that loses the answer can ask about it.
        """
        return to_text(claim_request(store, self.subject, self.key, self._digest(), as_id(self.key)).op)

    def begun(self, store: ObjectStore) -> str | None:
        """The id of the operation, if the same request was let in before."""
        op = find_request(store, self.subject, self.key, self._digest())
        return None if op is None else to_text(op)

    def _digest(self) -> bytes:
        return hashlib.sha256(self.request.encode() + b"\0" + self.body).digest()
