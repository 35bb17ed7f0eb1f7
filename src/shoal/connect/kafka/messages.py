"""Records of Kafka as a consumer returns them. A key or a value of None is not the same as an empty one."""

from __future__ import annotations

from shoal.model.node import frozen


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
