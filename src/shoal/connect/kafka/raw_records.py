"""Records of a topic as a raw pool has them, in columns:

    {seqno, kafka: {topic, partition, offset, timestamp, key, headers}, value}

Keys and values are decoded many at a time where their decoder can do that. What it refuses is an
`error({message,bytes})` in its place. A missing key is null, and so is the value of a tombstone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.connect.kafka.decoders import Decoder
from shoal.connect.kafka.messages import Message
from shoal.errors import InvalidInput
from shoal.formats.columns import parts as column_parts
from shoal.formats.columns.batches import Batch, Part, Rows, batch_of
from shoal.formats.columns.physical import arrow_type, to_arrow
from shoal.model import types as t
from shoal.model.values import Value

_HEADERS = t.array(t.record((("key", t.STRING), ("value", t.BYTES))))
_BAD = t.error(t.record((("message", t.STRING), ("bytes", t.BYTES))))
_KAFKA = ["topic", "partition", "offset", "timestamp", "key", "headers"]
NUMBER = "seqno"
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records without their numbers."""

    parts: Sequence[Sequence[Part]]
    """Of `kafka` and of `value`."""
    topics: Sequence[str]
    partitions: Rows
    offsets: Rows
    is_bad: Flags
    """Of each, whether its key or its value could not be decoded."""

    def __len__(self) -> int:
        return len(self.offsets)

    def in_order(self, times: Rows) -> Decoded:
        """The records by their times, those of one partition in the order of their offsets."""
        rank_of, codes = np.empty(len(self), np.int64), _codes(self)
        latest = np.empty(len(self), np.int64)
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            latest[rows] = np.maximum.accumulate(times[rows])
        order = np.argsort(latest, kind="stable")
        if np.array_equal(order, np.arange(len(self))):
            return self
        rank_of[order] = np.arange(len(self))
        return Decoded(
            [[_moved(part, rank_of) for part in parts] for parts in self.parts],
            [self.topics[row] for row in order.tolist()],
            self.partitions[order],
            self.offsets[order],
            self.is_bad[order],
        )

    def numbered(self, first: int, rows: Rows) -> Batch:
        """Some of these records, with numbers from the first on."""
        numbers = pa.array(np.arange(first, first + len(rows), dtype=np.int64))
        fields = [[Part(t.INT64, numbers, np.arange(len(rows), dtype=np.int64))]]
        fields += [list(parts) if len(rows) == len(self) else _chosen(parts, rows) for parts in self.parts]
        return Batch(tuple(column_parts.records([NUMBER, "kafka", "value"], fields, len(rows))), len(rows))


def _codes(records: Decoded) -> Rows:
    """A number for the topic and partition of each record."""
    numbers: dict[str, int] = {}
    topics = np.fromiter((numbers.setdefault(t, len(numbers)) for t in records.topics), np.int64, len(records))
    codes: Rows = topics * (int(records.partitions.max(initial=0)) + 1) + records.partitions
    return codes


def _moved(part: Part, rank_of: Rows) -> Part:
    """A part whose rows are at other places."""
    rows = rank_of[part.rows]
    order = np.argsort(rows)
    return Part(part.shape, part.column.take(pa.array(order)), rows[order])


def _chosen(parts: Sequence[Part], rows: Rows) -> list[Part]:
    """Parts of some rows only, which ascend."""
    chosen = []
    for part in parts:
        places = np.searchsorted(rows, part.rows)
        is_in = np.isin(part.rows, rows)
        if is_in.any():
            column = part.column.take(pa.array(np.flatnonzero(is_in)))
            chosen.append(Part(part.shape, column, places[is_in].astype(np.int64)))
    return chosen


def decode(messages: Sequence[Message], key: Decoder, value: Decoder) -> Decoded:
    """Records with their keys and values decoded."""
    keys, bad_keys = _decoded([m.key for m in messages], key)
    values, bad_values = _decoded([m.value for m in messages], value)
    length = len(messages)
    topics = [m.topic for m in messages]
    partitions = np.fromiter((m.partition for m in messages), np.int64, length)
    offsets = np.fromiter((m.offset for m in messages), np.int64, length)
    columns = [
        _whole(t.STRING, pa.array(topics, pa.string())),
        _whole(t.INT64, pa.array(partitions)),
        _whole(t.INT64, pa.array(offsets)),
        _whole(t.TIME, pa.array([m.timestamp for m in messages], arrow_type(t.TIME))),
        keys,
        _whole(_HEADERS, to_arrow(_HEADERS, [m.headers for m in messages])),
    ]
    kafka = column_parts.records(_KAFKA, columns, length)
    return Decoded((kafka, values), topics, partitions, offsets, bad_keys | bad_values)


def joined(several: Sequence[Decoded]) -> Decoded:
    """Records that were decoded in several ways, one after the other."""
    if len(several) == 1:
        return several[0]
    starts = np.cumsum([0, *(len(each) for each in several)])
    fields = []
    for field in range(2):
        shifted = [
            Part(part.shape, part.column, part.rows + start)
            for each, start in zip(several, starts, strict=False)
            for part in each.parts[field]
        ]
        fields.append(column_parts.merged(shifted))
    return Decoded(
        fields,
        [topic for each in several for topic in each.topics],
        np.concatenate([each.partitions for each in several]),
        np.concatenate([each.offsets for each in several]),
        np.concatenate([each.is_bad for each in several]),
    )


def _whole(shape: t.Type, column: pa.Array) -> list[Part]:
    return [Part(shape, column, np.arange(len(column), dtype=np.int64))]


def _decoded(texts: Sequence[bytes | None], decoder: Decoder) -> tuple[list[Part], Flags]:
    """What all keys, or all values, are; and which are bad."""
    is_bad = np.zeros(len(texts), bool)
    rows = np.flatnonzero(np.fromiter((text is not None for text in texts), bool, len(texts)))
    present = [text for text in texts if text is not None]
    batch = decoder.column(present) if present else Batch((), 0)
    if batch is None:
        values = [_value(text, decoder) for text in present]
        is_bad[rows] = [value.type is _BAD for value in values]
        batch = batch_of(values)
    parts = column_parts.moved(list(batch.parts), rows)
    if len(rows) < len(texts):
        absent = np.setdiff1d(np.arange(len(texts), dtype=np.int64), rows)
        parts.append(Part(t.NULL, pa.nulls(len(absent), arrow_type(t.NULL)), absent))
    return column_parts.merged(parts), is_bad


def _value(text: bytes, decoder: Decoder) -> Value:
    try:
        return decoder.value(text)
    except InvalidInput as e:
        return Value(_BAD, (str(e), text))
