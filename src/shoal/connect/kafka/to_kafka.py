"""A job of `shoal sync to-kafka`: sends the records of a staging branch to topics, in the order of their positions.

Each topic has a producer of its own, whose transactions make batches visible at once. What was sent is read back from
the topic (`sent.py`), so nothing has to be noted anywhere else, and a crash at any moment duplicates nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.connect.kafka.config import Output, ToKafka
from shoal.connect.kafka.connection import TIMEOUT, Connection, error_of
from shoal.connect.kafka.encoders import Encoder
from shoal.connect.kafka.events import Event
from shoal.connect.kafka.patience import patiently
from shoal.connect.kafka.sent import headers_of, last_position
from shoal.errors import InvalidInput, StorageFailure
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value, string

if TYPE_CHECKING:
    import confluent_kafka as ck
else:
    ck = lazy("confluent_kafka")

_PAUSE = 0.2
"""Seconds between two looks at a branch on which nothing is new."""
_MOST_TRIES = 5
EncoderOf = Callable[[str, str], Encoder]
"""Opens an encoder by its name and its subject in a registry."""


class Restart(Exception):
    """A transaction was not committed for sure: find out what was sent, and go on there."""


@dataclass(eq=False)
class _Feed:
    """One topic, and where it has got to."""

    output: Output
    topic: str
    branch: Branch
    source: str
    key: Encoder
    value: Encoder
    producer: Any = None
    position: int = 0
    seen: str | None = None
    """The tip of the branch of which all was sent."""


@dataclass(eq=False)
class Sender:
    """Sends what branches have for some topics."""

    lake: Lake
    connection: Connection
    config: ToKafka
    open_encoder: EncoderOf
    report: Callable[[Event], None] = lambda event: None
    resend: bool = False
    _feeds: dict[tuple[int, str], _Feed] = field(default_factory=dict)

    def run(self, is_over: Callable[[], bool], *, once: bool = False) -> None:
        """Send until it is over; with `once`, until all that is there was sent."""
        while not is_over():
            count = sum(self._send(number, output, is_over) for number, output in enumerate(self.config.outputs))
            if not count:
                if once:
                    return
                time.sleep(_PAUSE)

    def _send(self, number: int, output: Output, is_over: Callable[[], bool]) -> int:
        """Send what is new of an output; the number of records."""
        branch = self.lake.pool(output.pool).branch(output.branch)
        tip = patiently("the lake", branch.resolve, is_over, self.report)
        total = 0
        for topic in self._topics(number, output, branch, tip, is_over):
            feed = self._feeds.get((number, topic))
            if feed is None:
                feed = self._feeds[number, topic] = self._open(output, topic, branch)
            if feed.seen != tip:
                total += self._send_topic(feed, tip, is_over)
        return total

    def _topics(
        self, number: int, output: Output, branch: Branch, tip: str | None, is_over: Callable[[], bool]
    ) -> Sequence[str]:
        """The topics that records of a branch are for."""
        if output.topics:
            return output.topics
        known = [feed for (each, _), feed in self._feeds.items() if each == number]
        if tip is None or (known and all(feed.seen == tip for feed in known)):
            return [feed.topic for feed in known]
        program = "has(kafka.topic) | count() by topic:=kafka.topic | sort topic"
        rows = patiently("the lake", lambda: branch.query(program).to_list(), is_over, self.report)
        return [row["topic"] for row in rows]

    def _open(self, output: Output, topic: str, branch: Branch) -> _Feed:
        target = output.rename.get(topic, topic)
        key = self.open_encoder(output.key, f"{target}-key")
        value = self.open_encoder(output.value, f"{target}-value")
        return _Feed(output, topic, branch, f"{branch.pool_id}@{branch.branch_name}", key, value)

    # ---- one topic

    def _send_topic(self, feed: _Feed, tip: str | None, is_over: Callable[[], bool]) -> int:
        total = tries = 0
        while not is_over():
            if feed.producer is None:
                patiently("kafka", lambda: self._begin(feed), is_over, self.report)
            records = patiently("the lake", lambda: self._next(feed, tip), is_over, self.report)
            if not records:
                feed.seen = tip
                break
            try:
                patiently("the registry", partial(self._prepare, feed, records), is_over, self.report)
                self._transact(feed, records)
            except Restart as e:
                tries += 1
                if tries > _MOST_TRIES:
                    raise StorageFailure(f"topic {feed.topic!r}: {e}") from e
                self.report(Event("warning", {"error": f"topic {feed.topic!r}: {e}; reading back what was sent"}))
                feed.producer = None
                continue
            tries, total = 0, total + len(records)
            facts = {"topic": feed.topic, "records": len(records), "position": feed.position}
            self.report(Event("commit", facts))
        return total

    def _begin(self, feed: _Feed) -> None:
        """Fence the sender before this one, and find out how far that was."""
        target = self._target(feed)
        ident = f"{self.config.transactional_id}-{feed.source}-{target}"
        producer = self.connection.producer({"transactional.id": ident, "enable.idempotence": "true"})
        try:
            producer.init_transactions(TIMEOUT)
        except ck.KafkaException as e:
            raise self.connection.trouble() or error_of(e.args[0], self.connection.where) from None
        feed.position = last_position(self.connection, target, feed.source, self._group(feed), resend=self.resend)
        feed.producer = producer

    def _target(self, feed: _Feed) -> str:
        return feed.output.rename.get(feed.topic, feed.topic)

    def _group(self, feed: _Feed) -> str:
        return f"{self.config.transactional_id}-{feed.source}"

    def _next(self, feed: _Feed, tip: str | None) -> list[Value]:
        """The records that come next, in their order."""
        if tip is None:
            return []
        topic = format_value(string(feed.topic))
        program = (
            f"kafka.topic == {topic} and kafka.offset > {feed.position} "
            f"| sort kafka.offset | head {self.config.limits.records}"
        )
        return list(feed.branch.query(program))

    def _prepare(self, feed: _Feed, records: Sequence[Value]) -> None:
        """Have the schemas for all records before any of them is sent."""
        for encoder, path in ((feed.value, ("value",)), (feed.key, ("kafka", "key"))):
            parts = (_part(record, *path) for record in records)
            encoder.prepare(dict.fromkeys(part.type for part in parts if part is not None))

    def _transact(self, feed: _Feed, records: Sequence[Value]) -> None:
        """Send records in one transaction; Restart if it is not certain that it was committed."""
        target, position = self._target(feed), feed.position
        encoded = []
        for record in records:
            offset = record.field("kafka").field("offset")  # type: ignore[union-attr]
            assert offset is not None
            encoded.append((int(offset.data), *self._encoded(feed, record)))
        try:
            feed.producer.begin_transaction()
            for position, key, value, headers in encoded:
                self._produce(feed, target, key, value, [*headers, *headers_of(feed.source, position)])
            feed.producer.commit_transaction(TIMEOUT)
        except ck.KafkaException as e:
            error = e.args[0]
            if error.code() in (ck.KafkaError._FENCED, ck.KafkaError.INVALID_PRODUCER_EPOCH):
                raise InvalidInput(
                    f"topic {target!r}: another process sends to it from {feed.source} (end one of them)"
                ) from None
            trouble = error_of(error, self.connection.where)
            if isinstance(trouble, InvalidInput):
                raise trouble from None
            raise Restart(str(trouble)) from None
        feed.position = position

    def _produce(self, feed: _Feed, topic: str, key: bytes | None, value: bytes | None, headers: Any) -> None:
        while True:
            try:
                feed.producer.produce(topic, value, key, headers=headers)
            except BufferError:
                feed.producer.poll(0.1)
            else:
                feed.producer.poll(0)
                return

    def _encoded(self, feed: _Feed, record: Value) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        value, key = _part(record, "value"), _part(record, "kafka", "key")
        try:
            encoded_key = None if key is None else feed.key.encode(key)
            encoded_value = None if value is None else feed.value.encode(value)
        except InvalidInput as e:
            raise InvalidInput(f"topic {feed.topic!r}, record {format_value(record)[:200]}: {e}") from None
        headers = _part(record, "kafka", "headers")
        is_list = headers is not None and isinstance(headers.type.under, t.Array)
        return encoded_key, encoded_value, list(headers.data) if is_list and headers is not None else []


def _part(record: Value, *path: str) -> Value | None:
    """A part of a record; None if it is null or missing."""
    part: Value | None = record
    for name in path:
        part = None if part is None else part.field(name)
    return None if part is None or part.data is None else part
