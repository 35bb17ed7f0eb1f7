"""What a sync reads and where it puts it, from a YAML file:

kafka: {bootstrap.servers: "localhost:9092", sasl.password: "${KAFKA_PASSWORD}"}   # settings of librdkafka
registry: {url: "http://localhost:8081"}
from-kafka:
  group: shoal-raw
  batch: {every: 1s, records: 100000, bytes: 64MiB}
  inputs:
    - {topics: [orders, menu], pool: raw, value: avro}
    - {topics: "^shop[.]public[.].*", pool: raw, key: json, value: debezium}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from shoal.connect.kafka.registry import Login
from shoal.connect.settings import Section
from shoal.errors import InvalidInput
from shoal.model.literals import parse_time
from shoal.model.node import frozen

_MILLISECOND = 10**6
_KEY, _VALUE = "text", "json"
"""The usual decoders."""


@frozen
class RegistrySettings:
    """Where the schemas are, and how to get in."""

    url: str
    login: Login = Login()
    ca: str | None = None


@frozen
class Begin:
    """Where the reading of a topic begins that a branch does not know yet."""

    at: str | int = "begin"
    """`begin`, `end`, or a time in milliseconds since 1970."""
    offsets: tuple[tuple[tuple[str, int], int], ...] = ()
    """Topics and partitions with their offsets, which count before anything else."""


@frozen
class Input:
    """Topics that go into a branch."""

    topics: tuple[str, ...]
    """Names; one that begins with `^` is a pattern."""
    pool: str
    branch: str = "main"
    key: str = _KEY
    value: str = _VALUE
    begin: Begin = Begin()

    def takes(self, topic: str) -> bool:
        """Whether a topic belongs here."""
        return any(re.match(name, topic) if name.startswith("^") else name == topic for name in self.topics)


@frozen
class Limits:
    """When a batch is committed: as soon as one of these is reached."""

    every: float = 1.0
    records: int = 100_000
    size: int = 64 << 20


@frozen
class FromKafka:
    """What `shoal sync from-kafka` does."""

    inputs: tuple[Input, ...]
    group: str
    limits: Limits = Limits()
    max_bad: int | None = None
    on_recreate: str = "fail"
    on_loss: str = "fail"

    def input_of(self, topic: str) -> Input | None:
        """The first input that takes a topic."""
        return next((each for each in self.inputs if each.takes(topic)), None)


@frozen
class Output:
    """A branch whose records go to topics."""

    pool: str
    branch: str = "main"
    topics: tuple[str, ...] = ()
    """The topics, by `kafka.topic` of the records; empty: all that occur."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """Other names of topics at the broker."""
    key: str = _VALUE
    value: str = _VALUE


@frozen
class ToKafka:
    """What `shoal sync to-kafka` does."""

    outputs: tuple[Output, ...]
    transactional_id: str = "shoal"
    limits: Limits = Limits(records=10_000)


def parse_kafka(section: Section) -> dict[str, str]:
    """Settings of librdkafka, which it checks itself."""
    return section.section("kafka").pairs()


def parse_registry(section: Section) -> RegistrySettings | None:
    """Where the schemas are; None if nothing says so."""
    if "registry" not in section:
        return None
    inside = section.section("registry")
    login = Login(inside.text("user"), inside.text("password"), inside.text("token"))
    settings = RegistrySettings(inside.required("url"), login, inside.text("ca"))
    inside.require_known()
    return settings


def parse_from_kafka(section: Section) -> FromKafka:
    """The part `from-kafka` of a file."""
    inside = section.section("from-kafka")
    inputs = tuple(_input(each, inside) for each in inside.sections("inputs"))
    if not inputs:
        raise InvalidInput(f"{inside.where}.inputs: nothing to read (such as `- {{topics: [orders], pool: raw}}`)")
    batch = inside.section("batch")
    usual = Limits()
    limits = Limits(
        batch.seconds("every", usual.every),
        batch.count("records", usual.records, 1) or usual.records,
        batch.size("bytes", usual.size),
    )
    batch.require_known()
    config = FromKafka(
        inputs,
        inside.text("group") or "shoal-" + "-".join(dict.fromkeys(each.pool for each in inputs)),
        limits,
        inside.count("max-bad"),
        inside.choice("on-recreate", ("fail", "restart"), "fail"),
        inside.choice("on-loss", ("fail", "skip"), "fail"),
    )
    inside.require_known()
    return config


def parse_to_kafka(section: Section) -> ToKafka:
    """The part `to-kafka` of a file."""
    inside = section.section("to-kafka")
    outputs = tuple(_output(each) for each in inside.sections("outputs"))
    if not outputs:
        raise InvalidInput(f"{inside.where}.outputs: nothing to send (such as `- {{pool: staging}}`)")
    batch = inside.section("batch")
    limits = Limits(records=batch.count("records", 10_000, 1) or 10_000)
    batch.require_known()
    config = ToKafka(outputs, inside.text("transactional-id") or "shoal", limits)
    inside.require_known()
    return config


def _output(section: Section) -> Output:
    pool, _, branch = section.required("pool").partition("@")
    output = Output(
        pool,
        section.text("branch") or branch or "main",
        section.texts("topics") or section.texts("topic"),
        section.section("rename").pairs(),
        section.text("key") or _VALUE,
        section.text("value") or _VALUE,
    )
    section.require_known()
    return output


def _input(section: Section, above: Section) -> Input:
    topics = section.texts("topics") or section.texts("topic")
    if not topics:
        raise InvalidInput(f"{section.where}: topics are missing")
    for topic in topics:
        require_pattern(topic, section.where)
    pool, _, branch = section.required("pool").partition("@")
    begin = parse_begin(section.text("from") or above.text("from") or "earliest", f"{section.where}.from")
    key = section.text("key") or above.text("key") or _KEY
    value = section.text("value") or above.text("value") or _VALUE
    branch = section.text("branch") or branch or "main"
    section.require_known()
    return Input(topics, pool, branch, key, value, begin)


def require_pattern(topic: str, where: str) -> None:
    """InvalidInput if a topic is a pattern that is malformed."""
    if topic.startswith("^"):
        try:
            re.compile(topic)
        except re.error as e:
            raise InvalidInput(f"{where}: {topic!r}: not a regular expression: {e}") from None


def parse_begin(text: str, where: str) -> Begin:
    """`earliest`, `latest`, a time, or offsets such as `orders:0=40,orders:1=17`."""
    if text in ("earliest", "latest"):
        return Begin("begin" if text == "earliest" else "end")
    if "=" in text:
        return Begin(offsets=tuple(_offset(part, where) for part in text.split(",")))
    try:
        return Begin(parse_time(text) // _MILLISECOND)
    except InvalidInput:
        raise InvalidInput(
            f"{where}: {text!r} (earliest, latest, a time such as 2024-03-01T00:00:00Z, or orders:0=40,orders:1=17)"
        ) from None


def _offset(part: str, where: str) -> tuple[tuple[str, int], int]:
    place, _, offset = part.strip().partition("=")
    topic, _, partition = place.rpartition(":")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        raise InvalidInput(f"{where}: {part!r} (such as orders:0=40)")
    return (topic, int(partition)), int(offset)
