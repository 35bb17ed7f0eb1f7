"""What was sent to a topic before, read from the topic itself: the greatest position in the headers of its records.

A partition is read from its end backwards, in steps that double, until a record of ours turns up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from shoal.connect.kafka.connection import TIMEOUT, Connection, error_of
from shoal.errors import InvalidInput, StorageFailure
from shoal.lazy import lazy

if TYPE_CHECKING:
    import confluent_kafka as ck
else:
    ck = lazy("confluent_kafka")

SOURCE, POSITION = "shoal.source", "shoal.position"
NOTHING = 0
"""The position before the first record."""
_STEP = 500
_AT_ONCE = 5000


def headers_of(source: str, position: int) -> list[tuple[str, bytes]]:
    """The headers that say which record of which branch this is."""
    return [(SOURCE, source.encode()), (POSITION, b"%d" % position)]


def last_position(connection: Connection, topic: str, source: str, group: str, *, resend: bool = False) -> int:
    """The greatest position of a source that was sent to a topic; the records before it were sent, too."""
    count = connection.partitions().get(topic)
    if count is None:
        raise InvalidInput(f"{connection.where}: no topic named {topic!r} (create it first)")
    places = [(topic, partition) for partition in range(count)]
    begins, ends = connection.ends(places, "begin"), connection.ends(places)
    consumer = connection.consumer(group, {"group.id": group, "isolation.level": "read_committed"})
    try:
        sent = max(_last_in(consumer, place, begins[place], ends[place], source, connection) for place in places)
    finally:
        consumer.close()
    if sent == NOTHING and any(begins.values()) and not resend:
        raise InvalidInput(
            f"topic {topic!r}: records of it were deleted, and none of those that are left says what was sent from "
            f"{source} (send all of it with -resend)"
        )
    return sent


def _last_in(consumer: Any, place: tuple[str, int], begin: int, end: int, source: str, connection: Connection) -> int:
    """The position of the last record of ours in a partition."""
    step = _STEP
    upto = end
    while upto > begin:
        start = max(begin, upto - step)
        positions = [
            position
            for record in _read(consumer, place, start, upto, connection)
            if (position := position_of(record, source)) is not None
        ]
        if positions:
            return max(positions)
        upto, step = start, 2 * step
    return NOTHING


def _read(consumer: Any, place: tuple[str, int], start: int, end: int, connection: Connection) -> Iterable[Any]:
    """The records of a part of a partition."""
    consumer.assign([ck.TopicPartition(*place, start)])
    until = time.monotonic() + TIMEOUT
    records = []
    while True:
        for record in consumer.consume(_AT_ONCE, 0.05):
            until = time.monotonic() + TIMEOUT
            error = record.error()
            if error is None:
                if record.offset() < end:
                    records.append(record)
                if record.offset() >= end - 1:
                    return records
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                return records
            else:
                raise error_of(error, connection.where)
        if time.monotonic() > until:
            raise connection.trouble() or StorageFailure(f"kafka at {connection.where}: no answer (is it running?)")


def position_of(record: Any, source: str) -> int | None:
    """The position of a record of ours; None if somebody else has sent it."""
    headers = dict(record.headers() or ())
    if headers.get(SOURCE) != source.encode():
        return None
    text = headers.get(POSITION) or b""
    return int(text) if text.isdigit() else None
