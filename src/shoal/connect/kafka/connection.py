"""The connection to a cluster: consumers, producers and what the brokers say of topics, with errors of ours.

librdkafka tells of brokers that are down, and of credentials that are refused, by a callback, and goes on trying. So a
connection remembers the last such error: the error of a wait that took too long says why.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from shoal.errors import InvalidInput, NotFound, ShoalError, StorageFailure
from shoal.extras import require
from shoal.lazy import lazy
from shoal.suggestions import did_you_mean

if TYPE_CHECKING:
    import confluent_kafka as ck
    from confluent_kafka import admin
else:
    ck = lazy("confluent_kafka")
    admin = lazy("confluent_kafka.admin")

T = TypeVar("T")
TIMEOUT = 15.0
"""Seconds that a question to the brokers may take."""
_PATIENCE = 1.0
"""Seconds after which it is looked whether they have refused us."""
_SECRET = ("password", "secret", "key.pem", "oauthbearer.config", "sasl.jaas")
_OURS = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
}
"""Settings of consumers that the sync depends on."""
_SILENT = logging.getLogger("shoal.kafka.silent")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


@dataclass(eq=False)
class Connection:
    """A cluster, by the settings of librdkafka."""

    settings: Mapping[str, str]
    _trouble: tuple[float, Any] | None = None
    _admin: Any = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        require("confluent_kafka")
        if not self.where:
            raise InvalidInput("kafka: bootstrap.servers is missing (such as localhost:9092)")

    def __repr__(self) -> str:
        return f"<connection to {self.where}>"

    @property
    def where(self) -> str:
        """The brokers that are asked first."""
        return self.settings.get("bootstrap.servers", "")

    def consumer(self, group: str, more: Mapping[str, Any] | None = None) -> Any:
        """A consumer. It reads what is committed, unless the settings say otherwise."""
        usual = {"isolation.level": "read_committed", "fetch.wait.max.ms": "100", "group.id": group}
        return self._make(ck.Consumer, {**usual, **self.settings, **(more or {}), **_OURS})

    def producer(self, more: Mapping[str, Any]) -> Any:
        """A producer."""
        mine = {name: text for name, text in self.settings.items() if name not in _OF_CONSUMERS}
        return self._make(ck.Producer, {"linger.ms": "20", **mine, **more})

    def _make(self, kind: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
        try:
            return kind({**settings, "error_cb": self._note}, logger=_SILENT)
        except ck.KafkaException as e:
            raise setting_error(e, settings) from None

    def _note(self, error: Any) -> None:
        self._trouble = time.monotonic(), error

    def trouble(self, since: float = 0.0) -> ShoalError | None:
        """What the brokers, or the way to them, have had to complain of since a moment of the monotonic clock."""
        if self._trouble is None or self._trouble[0] < since:
            return None
        return error_of(self._trouble[1], self.where)

    def require_access(self) -> None:
        """Raise if the brokers have refused our credentials."""
        trouble = self.trouble()
        if isinstance(trouble, InvalidInput):
            raise trouble

    # ---- topics

    def ask(self, question: Callable[[Any], T]) -> T:
        """Ask the brokers something; StorageFailure if they do not answer in time."""
        began = time.monotonic()
        try:
            with self._lock:
                if self._admin is None:
                    mine = {n: text for n, text in self.settings.items() if n not in _OF_CONSUMERS}
                    self._admin = self._make(admin.AdminClient, mine)
            return question(self._admin)
        except ck.KafkaException as e:
            raise self.trouble(began) or error_of(e.args[0], self.where) from None

    def partitions(self) -> dict[str, int]:
        """All topics but those of the cluster itself, and how many partitions each has."""

        began = time.monotonic()

        def list_topics(client: Any) -> dict[str, int]:
            client.poll(0)
            topics = client.list_topics(timeout=_PATIENCE).topics
            return {name: len(topic.partitions) for name, topic in topics.items() if not name.startswith("__")}

        while True:
            try:
                return self.ask(list_topics)
            except StorageFailure:
                self.require_access()
                if time.monotonic() - began > TIMEOUT:
                    raise

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """The id of each topic; those that are gone are left out."""
        names = list(names)

        def describe(client: Any) -> dict[str, str]:
            futures = client.describe_topics(ck.TopicCollection(names), request_timeout=TIMEOUT)
            ids = {}
            for name, future in futures.items():
                try:
                    ids[name] = str(future.result().topic_id)
                except ck.KafkaException as e:
                    if e.args[0].code() != ck.KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
            return ids

        return self.ask(describe) if names else {}

    def ends(self, places: Iterable[tuple[str, int]], at: str | int = "end") -> dict[tuple[str, int], int]:
        """An offset of each partition: its `begin`, its `end`, or the first one at or after a time in milliseconds.

        The end is that of committed transactions. It stands for a time at which there is nothing yet, too.
        """
        places = list(places)
        specs: Any = admin  # its own types leave this class out
        if isinstance(at, int):
            chosen = specs.OffsetSpec.for_timestamp(at)
        else:
            chosen = specs.OffsetSpec.earliest() if at == "begin" else specs.OffsetSpec.latest()

        def look(client: Any) -> dict[tuple[str, int], int]:
            wanted = {ck.TopicPartition(topic, number): chosen for topic, number in places}
            level = ck.IsolationLevel.READ_COMMITTED
            futures = client.list_offsets(wanted, isolation_level=level, request_timeout=TIMEOUT)
            return {(place.topic, place.partition): future.result().offset for place, future in futures.items()}

        offsets = self.ask(look) if places else {}
        late = [place for place, offset in offsets.items() if offset < 0]
        return {**offsets, **self.ends(late)} if late else offsets


_OF_CONSUMERS = frozenset((
    "isolation.level", "group.id", "group.instance.id", "group.protocol", "session.timeout.ms", "max.poll.interval.ms",
    "heartbeat.interval.ms", "partition.assignment.strategy", "fetch.wait.max.ms", "fetch.min.bytes", "fetch.max.bytes",
    "max.partition.fetch.bytes", "queued.min.messages", "queued.max.messages.kbytes", "check.crcs",
))  # fmt: skip


def error_of(error: Any, where: str) -> ShoalError:
    """What librdkafka tells as an error of ours: InvalidInput for what waiting does not mend."""
    code, text = error.code(), _plain(error.str() or "")
    refused = {
        ck.KafkaError._AUTHENTICATION,
        ck.KafkaError.SASL_AUTHENTICATION_FAILED,
        ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
        ck.KafkaError.GROUP_AUTHORIZATION_FAILED,
        ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ck.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ck.KafkaError.UNSUPPORTED_SASL_MECHANISM,
        ck.KafkaError._SSL,
    }
    if code in refused:
        return InvalidInput(f"kafka at {where}: access refused: {text} (see the settings sasl.* and ssl.*)")
    if code in (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC):
        return NotFound(f"kafka at {where}: {text}")
    return StorageFailure(f"kafka at {where}: {text} (is the broker running, and is this its address?)")


def setting_error(error: Any, settings: Mapping[str, Any]) -> InvalidInput:
    """The error of a setting that librdkafka does not take."""
    text = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
    hint = ""
    if "No such configuration property" in text:
        name = text.partition('"')[2].rpartition('"')[0]
        hint = did_you_mean(name, KNOWN_SETTINGS)
        text = f"no setting named {name!r}"
    return InvalidInput(f"kafka: {_plain(text)}{hint}")


def _plain(text: str) -> str:
    """A message of librdkafka in one line, without the thread and the time that it begins with."""
    text = " ".join(text.split())
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


KNOWN_SETTINGS = (
    "bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username",
    "sasl.password", "sasl.oauthbearer.config", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
    "ssl.key.password", "ssl.endpoint.identification.algorithm", "socket.timeout.ms", "session.timeout.ms",
    "max.poll.interval.ms", "partition.assignment.strategy", "group.id", "group.protocol", "group.instance.id",
    "isolation.level", "fetch.min.bytes", "fetch.wait.max.ms", "compression.type", "linger.ms", "batch.size",
    "message.max.bytes", "topic.metadata.refresh.interval.ms", "transaction.timeout.ms", "transactional.id",
    "enable.idempotence", "acks", "debug", "metadata.max.age.ms", "broker.address.family", "reconnect.backoff.max.ms",
)  # fmt: skip
"""What people set most, for hints."""


def shown_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings for people, without secrets."""
    return {n: "***" if any(word in n for word in _SECRET) else text for n, text in settings.items()}
