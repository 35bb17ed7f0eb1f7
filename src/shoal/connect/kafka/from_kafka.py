"""A worker of `shoal sync from-kafka`: reads topics, and commits what it has read batch by batch.

Workers of one group share the partitions. The offsets of a branch decide where a worker reads on, and whether what it
has read is still missing; the group only says who reads what. So a rebalance at any moment, and a worker that does not
know that it has lost a partition, do no harm.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from shoal.api.lake import Lake
from shoal.api.requests import NoteArgs
from shoal.connect.kafka.config import FromKafka, Input
from shoal.connect.kafka.connection import Connection, error_of
from shoal.connect.kafka.decoders import Decoder
from shoal.connect.kafka.events import Event
from shoal.connect.kafka.messages import Message, message_of
from shoal.connect.kafka.patience import TRANSIENT, patiently
from shoal.connect.kafka.raw_records import Decoded, decode, joined
from shoal.connect.kafka.starts import Start, find_starts
from shoal.connect.kafka.targets import Committed, Consumed, Place, Rewind, Target, require_pool
from shoal.errors import InvalidInput, NotFound
from shoal.lazy import lazy
from shoal.suggestions import did_you_mean

if TYPE_CHECKING:
    import confluent_kafka as ck
else:
    ck = lazy("confluent_kafka")

_AT_ONCE = 10_000
"""How many records are taken from librdkafka at a time."""
_WAIT = 0.1
_LOOK_AGAIN = 30.0
"""Seconds after which a worker with a static share looks for new partitions."""
T = TypeVar("T")
Fill = Callable[[Target, Sequence[Place], Callable[[], bool], int], int]
"""Reads what a branch lacks of some partitions before a worker begins; takes and returns the number of bad records."""
Decoders = tuple[str, str]
"""Those of keys and of values, by name."""


@dataclass(eq=False)
class Stream:
    """A partition that this worker reads."""

    source: Input
    target: Target
    start: Start
    begin: int
    """The branch has all before this offset, or there is nothing between that and the first record gathered."""
    has_ended: bool = False
    end: int = 0
    """Where the partition ended when that was seen last: markers of transactions take offsets, too."""

    def __post_init__(self) -> None:
        self.decoders = self.source.key, self.source.value


@dataclass(eq=False)
class Gathered:
    """Records of a target that are not committed yet."""

    messages: dict[Decoders, list[Message]] = field(default_factory=lambda: defaultdict(list))
    count: int = 0
    size: int = 0
    began: float = 0.0

    def add(self, decoders: Decoders, message: Message) -> None:
        """Put a record to the others."""
        if not self.count:
            self.began = time.monotonic()
        self.messages[decoders].append(message)
        self.count += 1
        self.size += len(message.key or b"") + len(message.value or b"")

    def without(self, places: Iterable[Place]) -> None:
        """Forget the records of some partitions."""
        gone = set(places)
        for decoders, messages in self.messages.items():
            self.messages[decoders] = [m for m in messages if (m.topic, m.partition) not in gone]
        self.count = sum(map(len, self.messages.values()))


class Worker:
    """One consumer, and the branches that its topics go into."""

    def __init__(
        self,
        lake: Lake,
        connection: Connection,
        config: FromKafka,
        open_decoder: Callable[[str], Decoder],
        report: Callable[[Event], None] = lambda event: None,
        *,
        share: tuple[int, int] | None = None,
        note: NoteArgs | None = None,
        backfill: Fill | None = None,
    ) -> None:
        self._connection = connection
        self._config = config
        self._report = report
        self._share = share
        self._backfill = backfill
        self._decoders = {name: open_decoder(name) for each in config.inputs for name in (each.key, each.value)}
        self._targets = {
            (each.pool, each.branch): Target(lake.pool(each.pool).branch(each.branch), note or {}, each.pool)
            for each in config.inputs
        }
        for target in self._targets.values():
            require_pool(target.branch)
        self._streams: dict[Place, Stream] = {}
        self._gathered: dict[Target, Gathered] = defaultdict(Gathered)
        self._bad = 0
        self._is_assigned = False
        self._looked = 0.0
        self._failure: Exception | None = None
        self._consumer: Any = None

    # ---- the loop

    def run(self, is_over: Callable[[], bool], *, once: bool = False) -> None:
        """Read until it is over; with `once`, until the ends of all partitions were reached."""
        self._patiently("kafka", self._require_topics, is_over)
        if self._backfill is not None:
            self._fill(self._backfill, is_over)
        self._consumer = self._connection.consumer(self._config.group)
        try:
            self._begin()
            while not is_over():
                self._take(self._consumer.consume(_AT_ONCE, _WAIT))
                self._raise_failure()
                self._look_for_partitions()
                is_done = once and self._is_assigned and all(s.has_ended for s in self._streams.values())
                self._commit_due(is_over, everything=is_done)
                if is_done:
                    return
            self._commit_due(lambda: True, everything=True)
        finally:
            with suppress(ck.KafkaException):
                self._consumer.close()

    def _fill(self, backfill: Fill, is_over: Callable[[], bool]) -> None:
        places = self._places()
        for (pool, branch), target in self._targets.items():
            mine = [
                (topic, partition)
                for topic, partition in places
                if (source := self._config.input_of(topic)) and (source.pool, source.branch) == (pool, branch)
            ]
            self._bad = backfill(target, mine, is_over, self._bad)

    def _begin(self) -> None:
        names = [name for each in self._config.inputs for name in each.topics]
        if self._share is None:
            self._consumer.subscribe(names, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _require_topics(self) -> None:
        """NotFound, if a topic that is named is not there."""
        self._connection.require_access()
        there = self._connection.partitions()
        for each in self._config.inputs:
            for name in each.topics:
                if not name.startswith("^") and name not in there:
                    raise NotFound(f"{self._connection.where}: no topic named {name!r}{did_you_mean(name, there)}")

    def _raise_failure(self) -> None:
        """Raise what went wrong in a callback."""
        self._connection.require_access()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _patiently(self, what: str, act: Callable[[], T], is_over: Callable[[], bool]) -> T:
        return patiently(what, act, is_over, self._report)

    # ---- records

    def _take(self, records: Sequence[Any]) -> None:
        """Gather records of partitions that are ours, and deal with what else librdkafka tells."""
        streams, gathered = self._streams, self._gathered
        for record in records:
            error = record.error()
            if error is not None:
                self._take_error(record, error)
                continue
            place = (record.topic(), record.partition())
            stream = streams.get(place)
            if stream is None:
                continue
            stream.has_ended = False
            message = message_of(record)
            gathered[stream.target].add(stream.decoders, message)

    def _take_error(self, record: Any, error: Any) -> None:
        code, place = error.code(), (record.topic(), record.partition())
        stream = self._streams.get(place)
        if code == ck.KafkaError._PARTITION_EOF:
            if stream is not None:
                stream.has_ended, stream.end = True, record.offset()
        elif code in (ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE):
            if stream is not None:
                self._restart(stream.target)
        elif code == ck.KafkaError.UNKNOWN_TOPIC_OR_PART and (place[0] or "").startswith("^"):
            pass  # nothing matches the pattern yet
        elif code == ck.KafkaError._MAX_POLL_EXCEEDED:
            self._report(Event("warning", {"error": "the group has given our partitions to others: a commit was slow"}))
        elif error.fatal():
            raise error_of(error, self._connection.where)
        else:
            self._report(Event("warning", {"error": str(error_of(error, self._connection.where))}))

    # ---- partitions

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        with self._kept():
            places = [(each.topic, each.partition) for each in partitions]
            self._open(places)

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        with self._kept():
            with suppress(*TRANSIENT, Rewind):  # the worker that reads them now begins where the branch is
                self._commit_due(lambda: True, everything=True)
            self._close((each.topic, each.partition) for each in partitions)

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        with self._kept():
            self._close((each.topic, each.partition) for each in partitions)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep an error of a callback for the loop."""
        try:
            yield
        except Exception as e:
            self._failure = self._failure or e

    def _open(self, places: Sequence[Place]) -> None:
        """Read some more partitions, each from where its branch is."""
        by_target: dict[Target, list[tuple[Place, Input]]] = defaultdict(list)
        for place in places:
            source = self._config.input_of(place[0])
            if source is not None:
                by_target[self._targets[source.pool, source.branch]].append((place, source))
        offsets = []
        for target, chosen in by_target.items():
            starts = self._patiently("kafka", lambda: self._starts(target, chosen), lambda: False)  # noqa: B023
            for place, source in chosen:
                start = starts[place]
                self._streams[place] = Stream(source, target, start, start.begin)
                offsets.append(ck.TopicPartition(*place, start.offset))
        self._is_assigned = True
        self._report(Event("assigned", {"partitions": len(self._streams)}))
        is_incremental = self._consumer_protocol() == "COOPERATIVE"
        (self._consumer.incremental_assign if is_incremental else self._consumer.assign)(offsets)

    def _consumer_protocol(self) -> str:
        if self._share is not None:
            return "STATIC"
        settings = self._connection.settings
        is_new = settings.get("group.protocol", "classic") == "consumer"
        return (
            "COOPERATIVE" if is_new or "cooperative" in settings.get("partition.assignment.strategy", "") else "EAGER"
        )

    def _starts(self, target: Target, chosen: Sequence[tuple[Place, Input]]) -> Mapping[Place, Start]:
        return find_starts(self._connection, target.refresh(), dict(chosen), self._config)

    def _close(self, places: Iterable[Place]) -> None:
        """Read some partitions no more."""
        gone = list(places)
        for place in gone:
            self._streams.pop(place, None)
        for gathered in self._gathered.values():
            gathered.without(gone)

    def _look_for_partitions(self) -> None:
        """With a static share, find the partitions that are ours, now and then."""
        if self._share is None or time.monotonic() - self._looked < _LOOK_AGAIN:
            return
        mine = self._places()
        if self._looked == 0.0 or set(mine) - set(self._streams):
            self._commit_due(lambda: False, everything=True)
            self._streams.clear()
            self._open(mine)
        self._looked = time.monotonic()

    def _places(self) -> list[Place]:
        """All partitions, or those of a static share."""
        number, count = self._share or (0, 1)
        there = self._patiently("kafka", self._connection.partitions, lambda: False)
        places = [(t, p) for t in sorted(there) if self._config.input_of(t) for p in range(there[t])]
        return places[number::count]

    def _restart(self, target: Target) -> None:
        """Read all partitions of a target again from where its branch is."""
        self._gathered.pop(target, None)
        chosen = [(place, s.source) for place, s in self._streams.items() if s.target is target]
        starts = self._patiently("kafka", lambda: self._starts(target, chosen), lambda: False)
        for place, source in chosen:
            self._streams[place] = Stream(source, target, starts[place], starts[place].begin)
            self._consumer.seek(ck.TopicPartition(*place, starts[place].offset))

    # ---- commits

    def _commit_due(self, is_over: Callable[[], bool], *, everything: bool = False) -> None:
        limits, now = self._config.limits, time.monotonic()
        for target, gathered in list(self._gathered.items()):
            is_due = gathered.count >= limits.records or gathered.size >= limits.size
            if gathered.count and (everything or is_due or now - gathered.began >= limits.every):
                try:
                    self._commit(target, gathered, is_over)
                except Rewind:
                    self._restart(target)

    def _commit(self, target: Target, gathered: Gathered, is_over: Callable[[], bool]) -> None:
        """Commit what was gathered for a target."""
        decoded: Decoded = self._patiently("the registry", lambda: self._decoded(gathered), is_over)
        self._require_few_bad(gathered, decoded)
        batch = self._patiently("kafka", lambda: self._consumed(decoded), is_over)
        committed: Committed = self._patiently("the lake", lambda: self._committed(target, batch), is_over)
        del self._gathered[target]
        self._bad += committed.bad
        ends = [ck.TopicPartition(topic, partition, end) for (topic, partition), end in batch.ends.items()]
        if self._share is None:
            with suppress(ck.KafkaException):  # for tools that show lag
                self._consumer.commit(offsets=ends, asynchronous=True)
        self._go_on(target, batch)
        facts = {"pool": target.name, "commit": committed.commit, "records": committed.records, "bad": committed.bad}
        more = {"retries": committed.retries, "bytes": gathered.size, "lag": self._lag(target)}
        self._report(Event("commit", {**facts, **more}))

    def _lag(self, target: Target) -> int:
        """How many records of our partitions a branch does not have, as far as the consumer knows."""
        lag = 0
        for place, stream in self._streams.items():
            if stream.target is target:
                with suppress(ck.KafkaException):
                    _, end = self._consumer.get_watermark_offsets(ck.TopicPartition(*place), cached=True)
                    lag += max(0, end - stream.begin)
        return lag

    def _decoded(self, gathered: Gathered) -> Decoded:
        piles = [(names, messages) for names, messages in gathered.messages.items() if messages]
        decoded = joined([
            decode(messages, self._decoders[key], self._decoders[value]) for (key, value), messages in piles
        ])  # fmt: skip
        times = (message.timestamp or 0 for _, messages in piles for message in messages)
        return decoded.in_order(np.fromiter(times, np.int64, len(decoded)))

    def _committed(self, target: Target, batch: Consumed) -> Committed:
        try:
            return target.commit(batch)
        except TRANSIENT:
            target.forget()  # it may have landed
            raise

    def _require_few_bad(self, gathered: Gathered, decoded: Decoded) -> None:
        most = self._config.max_bad
        bad = int(decoded.is_bad.sum())
        if most is None or self._bad + bad <= most or not bad:
            return
        first = int(decoded.is_bad.argmax())
        where = f"{decoded.topics[first]}[{decoded.partitions[first]}] at offset {decoded.offsets[first]}"
        raise InvalidInput(
            f"{self._bad + bad} records could not be decoded, and -max-bad is {most}: the first of this batch is in "
            f"{where} (nothing of this batch was committed)"
        )

    def _consumed(self, decoded: Decoded) -> Consumed:
        """A batch, with the ids that its topics have now, after they were read."""
        ends: dict[Place, int] = {}
        for topic, partition, offset in zip(
            decoded.topics, decoded.partitions.tolist(), decoded.offsets.tolist(), strict=True
        ):
            ends[topic, partition] = offset + 1
        for place, end in ends.items():
            if self._streams[place].has_ended:
                ends[place] = max(end, self._streams[place].end)
        begins = {place: self._streams[place].begin for place in ends}
        names = {topic for topic, _ in ends}
        ids = self._connection.topic_ids(names)
        replaces = {}
        for topic, partition in ends:
            start = self._streams[topic, partition].start
            if ids.get(topic, "") != start.topic_id:
                raise InvalidInput(f"topic {topic!r} was deleted while it was read (start the sync again)")
            if start.replaces:
                replaces[topic] = start.replaces
        return Consumed(decoded, begins, ends, ids, replaces)

    def _go_on(self, target: Target, batch: Consumed) -> None:
        """The next batch begins where the branch is. If somebody else has read on, so do we."""
        positions = target.positions()
        for place, end in batch.ends.items():
            stream = self._streams.get(place)
            if stream is not None:
                stream.begin = max(end, positions.topic(place[0]).of(place[1]))
                if stream.begin > end:
                    self._consumer.seek(ck.TopicPartition(*place, stream.begin))
