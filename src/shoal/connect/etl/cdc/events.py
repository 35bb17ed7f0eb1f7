"""Change events of Debezium for PostgreSQL, as a raw pool has them: a row that changed, or the end of a transaction.

The id of a transaction is not the same in all of its events: it is `733:26400512`, a number and the place of the event
in the log. Only the number, before the colon, joins them. The end of 733 says how many events each table has, and its
place in the log (LSN) is that of the commit: transactions that end later have a greater one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from shoal.api.options import DEFAULT_READ
from shoal.connect.etl.values import elements
from shoal.connect.kafka.debezium_decoder import DebeziumDecoder
from shoal.errors import InvalidInput
from shoal.model.node import frozen
from shoal.model.values import Value, is_error, record

MARKERS = "transaction"
"""What the topic of transactions is called, behind the prefix."""
_FIRST = "first"
_LASTS = ("last_in_data_collection", "last")
_OPS = ("r", "c", "u", "d", "t")
_IGNORED = ("m",)
"""Messages that a program put into the log of the database."""
Key = tuple[Any, ...]
"""The data of a primary key, in the order of the names of its fields."""
_DECODER = DebeziumDecoder(DEFAULT_READ)


@frozen
class Change:
    """What became of a row, or of a whole table (`t`)."""

    seqno: int
    table: str
    op: str
    key: Value | None
    """A record with the fields of the primary key; None for a whole table."""
    after: Value | None
    """The row as it is now; None if it is gone."""
    old_key: Value | None
    """The key that it had before, if that was another one."""
    lsn: int
    last: int
    """The commit before this event, by its place in the log; 0 if that is not said."""
    txid: str
    order: int | None
    """Its number in its transaction; None if events do not say to which transaction they belong."""
    snapshot: str | None
    """Of a row of a snapshot, which part of it: `first`, `true`, `last` and so on."""
    ts_ms: int
    partition: int = 0

    @property
    def ident(self) -> tuple[Any, ...]:
        """What a second copy of the event has, too. Rows that were copied in at once share one place in the log."""
        return self.lsn, self.table, self.op, None if self.key is None else self.key.data

    @property
    def is_first(self) -> bool:
        """Whether it is the first row of a snapshot. It may be the last one of its table; nothing says so."""
        return self.snapshot == _FIRST

    @property
    def is_last(self) -> bool:
        """Whether it is the last row of its table in the snapshot."""
        return self.snapshot in _LASTS


@frozen
class End:
    """The end of a transaction that was committed."""

    seqno: int
    txid: str
    lsn: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many events there are of each table."""
    ts_ms: int = 0


@frozen
class Bad:
    """An event that cannot be read."""

    seqno: int
    table: str
    message: str


Event = Change | End | Bad


class Reader:
    """Reads the records of the topics of some tables."""

    def __init__(self, source: str, tables: Sequence[str]) -> None:
        self._source = source
        self._tables = {f"{source}.{table}": table for table in tables}

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that matter."""
        return (*self._tables, f"{self._source}.{MARKERS}")

    def read(self, raw: Value) -> Event | None:
        """The event of a raw record; None if it says nothing of rows, as tombstones and schemas do not."""
        seqno = _whole(raw, "seqno")
        kafka = _part(raw, "kafka")
        topic = str(_text(kafka, "topic"))
        try:
            if topic not in self._tables:
                return _end(seqno, kafka, raw.field("value"))
            return _change(seqno, self._tables[topic], kafka, raw.field("value"))
        except InvalidInput as e:
            place = f"{topic}, partition {_whole(kafka, 'partition')}, offset {_whole(kafka, 'offset')}"
            return Bad(seqno, self._tables.get(topic, ""), f"{place}: {e}")


def _end(seqno: int, kafka: Value, value: Value | None) -> End | None:
    value = _readable(value)
    if value is None or _text(value, "status") != "END":
        return None
    if kafka.field("partition") is not None and _whole(kafka, "partition") != 0:
        raise InvalidInput("a marker of a transaction outside of partition 0 (their topic has to have one partition)")
    txid, _, lsn = (_text(value, "id") or "").partition(":")
    if not lsn.isdecimal():
        raise InvalidInput(f"{txid!r} is not the id of a transaction of PostgreSQL (cdc reads no other databases)")
    return End(seqno, txid, int(lsn), _counts(value.field("data_collections")), _number(value, "ts_ms") or 0)


def _counts(collections: Value | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in () if collections is None else elements(collections.under()):
        name, count = _text(each, "data_collection"), _number(each, "event_count")
        if name is not None:
            counts[name] = (count or 0) + counts.get(name, 0)
    return counts


def _change(seqno: int, table: str, kafka: Value, value: Value | None) -> Change | None:
    value = _readable(value)
    if value is None:
        return None  # a tombstone
    op = _text(value, "op")
    if op is None and (value.field("databaseName") or value.field("ddl")) is not None:
        return None
    if op in _IGNORED:
        return None
    source = _record(value, "source")
    if op not in _OPS or source is None:
        raise InvalidInput(
            "not a change event of Debezium (read its topic with the decoder debezium, and not through "
            "transforms of Kafka Connect)"
        )
    connector = _text(source, "connector")
    if connector != "postgresql":
        raise InvalidInput(f"an event of the connector {connector!r} (cdc reads those of postgresql)")
    snapshot = _text(source, "snapshot")
    if snapshot == "incremental":
        raise InvalidInput("a row of an incremental snapshot (cdc reads initial ones: let Debezium take one)")
    transaction, after = _record(value, "transaction"), _record(value, "after")
    if after is None and op in ("r", "c", "u"):
        raise InvalidInput(f"an event {op!r} without the row in `after`")
    key = None if op == "t" else _key(kafka)
    return Change(
        seqno,
        table,
        op,
        key,
        None if op in ("d", "t") else after,
        _old_key(key, _record(value, "before")) if op == "u" else None,
        _number(source, "lsn") or 0,
        _last_commit(_text(source, "sequence")),
        _text(source, "txId") or "",
        None if transaction is None else _number(transaction, "total_order") or 0,
        None if snapshot in (None, "false") else snapshot,
        _number(source, "ts_ms") or 0,
        _number(kafka, "partition") or 0,
    )


def _key(kafka: Value) -> Value:
    """The key of a record, also if it was read as text."""
    key = kafka.field("key")
    if key is not None and isinstance(key.under().data, str):
        key = _DECODER.value(key.under().data.encode())
    if key is None or key.is_null:
        raise InvalidInput("the event has no key (give the table a primary key)")
    key = key.under()
    if is_error(key) or not isinstance(key.data, tuple) or _fields(key) is None:
        raise InvalidInput(f"a key that is not a record: {key!r} (read keys with the decoder debezium)")
    return in_order(key)


def in_order(key: Value) -> Value:
    """A key with its fields in the order of their names."""
    names = field_names(key)
    return key if len(names) < 2 else key_of(key, names) or key


def _fields(key: Value) -> tuple[str, ...] | None:
    names = getattr(key.type.under, "index", None)
    return None if names is None else tuple(names)


def field_names(key: Value) -> tuple[str, ...]:
    """The names of the fields of a key."""
    return _fields(key) or ()


def key_of(row: Value, names: Sequence[str]) -> Value | None:
    """The primary key of a row, by the names of its fields; None if the row lacks one, or it is null."""
    parts = [(name, row.field(name)) for name in sorted(names)]
    if any(part is None or part.is_null for _, part in parts):
        return None
    return record([(name, part) for name, part in parts if part is not None])


def _old_key(key: Value | None, before: Value | None) -> Value | None:
    old = None if before is None or key is None else key_of(before, field_names(key))
    return None if old is None or key is None or old.data == key.data else old


def _last_commit(sequence: str | None) -> int:
    """The first of the two places in `["26400512","26401328"]`; it is null until there is a commit."""
    try:
        first = json.loads(sequence or "[]")
        return int(first[0]) if first and first[0] else 0
    except (ValueError, TypeError):
        return 0


# ---- parts of records


def _readable(value: Value | None) -> Value | None:
    """A value that is there; InvalidInput if it could not be decoded."""
    if value is None or value.is_null:
        return None
    value = value.under()
    if is_error(value):
        raise InvalidInput(f"the record was not decoded: {_message(value)}")
    return value


def _message(value: Value) -> str:
    said = Value(getattr(value.type.under, "elem", value.type), value.data).field("message")
    return repr(value) if said is None else str(said.data)


def _record(value: Value, name: str) -> Value | None:
    part = value.field(name)
    if part is None or part.is_null:
        return None
    part = part.under()
    return part if _fields(part) is not None and part.data is not None else None


def _part(value: Value, name: str) -> Value:
    part = value.field(name)
    if part is None:
        raise InvalidInput(f"a raw record without {name} (it is not one of shoal sync from-kafka): {value!r}")
    return part.under()


def _text(value: Value, name: str) -> str | None:
    part = value.field(name)
    data = None if part is None else part.under().data
    return None if data is None else str(data).lower() if isinstance(data, bool) else str(data)


def _number(value: Value, name: str) -> int | None:
    part = value.field(name)
    data = None if part is None else part.under().data
    return None if data is None else int(data)


def _whole(value: Value, name: str) -> int:
    number = _number(value, name)
    if number is None:
        raise InvalidInput(f"a raw record without {name} (it is not one of shoal sync from-kafka): {value!r}")
    return number
