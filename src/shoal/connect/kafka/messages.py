"""Records of Kafka as a consumer returns them. A key or a value of None is not the same as an empty one."""

from __future__ import annotations

from typing import Any

from shoal.model.node import frozen

_MILLISECOND = 10**6


@frozen
class Message:
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """Nanoseconds since 1970; None if the record has none."""
    key: bytes | None
    value: bytes | None
    """None for a tombstone, which deletes its key."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """Names and values; a name may occur several times."""


def message_of(record: Any) -> Message:
    """A record as the client of Kafka gives it."""
    kind, at = record.timestamp()
    headers = record.headers()
    return Message(
        record.topic(), record.partition(), record.offset(), at * _MILLISECOND if kind else None, record.key(),
        record.value(), tuple(headers) if headers else (),
    )  # fmt: skip
