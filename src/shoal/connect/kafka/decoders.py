"""Decoders of records: one table by name. A record is exactly one value, or it is bad.

    json          JSON, each value with the type of its own shape
    avro          Avro by a schema of a registry, whose id stands before the record
    json-schema   JSON behind the id of its schema, which is not asked for: the value says what it is
    protobuf      the bytes of a message, with the id of its schema and what message type it is
    debezium      JSON of Kafka Connect; a record that brings its schema gets exact types by it
    text, bytes   one string, or its bytes
    zson, zng     a value with its type

`value` defines what a record means. `column` reads many records at once where all of them are good, to the same values.
A decoder is for one thread: it may hold a database connection.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

import numpy as np
import pyarrow as pa

from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.connect.kafka.avro_decoder import AvroDecoder
from shoal.connect.kafka.debezium_decoder import DebeziumDecoder
from shoal.connect.kafka.registry import Schemas
from shoal.connect.kafka.wire_format import HEADER, message_indexes, schema_id
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Batch, Part
from shoal.formats.json.column_reader import RecordReader
from shoal.formats.json.reader import decode_record
from shoal.formats.limits import NO_PARTS, check_text
from shoal.formats.zng import stream as zng_stream
from shoal.model import types as t
from shoal.model.parse import parse_value
from shoal.model.values import Value
from shoal.suggestions import did_you_mean


class Decoder(Protocol):
    """Makes values of records."""

    def value(self, data: bytes) -> Value:
        """The value of a record. InvalidInput if the record is bad; other errors are not its fault."""

    def column(self, data: Sequence[bytes]) -> Batch | None:
        """The values of records in columns; None if some record is bad, or columns do not suit them."""


def open_decoder(name: str, registry: Schemas | None = None, options: ReadOptions = DEFAULT_READ) -> Decoder:
    """The decoder of a name. A registry is needed by `avro` alone."""
    if name not in DECODERS:
        guess = did_you_mean(name, DECODERS)
        raise InvalidInput(f"no decoder named {name!r}{guess} (one of: {', '.join(sorted(DECODERS))})")
    return DECODERS[name](registry, options)


# ---- JSON


class _Json:
    """JSON without a header."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._columns = RecordReader(options)

    def value(self, data: bytes) -> Value:
        check_text(data, self._options, "record")
        return decode_record(data)

    def column(self, data: Sequence[bytes]) -> Batch | None:
        return self._columns.read(data)


class _JsonWithSchema(_Json):
    """JSON behind the id of a schema."""

    def value(self, data: bytes) -> Value:
        schema_id(data, "to read JSON without it, use the decoder json")
        return super().value(data[HEADER.size :])

    def column(self, data: Sequence[bytes]) -> Batch | None:
        bodies = []
        for record in data:
            if record[:1] != b"\0" or len(record) < HEADER.size or record[1] > 0x7F:
                return None
            bodies.append(record[HEADER.size :])
        return super().column(bodies)


# ---- records as they are


class _Text:
    """UTF-8."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def value(self, data: bytes) -> Value:
        check_text(data, self._options, "record", NO_PARTS)
        return Value(t.STRING, _decoded(data))

    def column(self, data: Sequence[bytes]) -> Batch | None:
        batch = _whole(t.BYTES, data, self._options)
        if batch is None:
            return None
        try:
            parts = [Part(t.STRING, part.column.cast(pa.string()), part.rows) for part in batch.parts]
        except pa.ArrowInvalid:  # not UTF-8
            return None
        return Batch(tuple(parts), batch.length)


class _Bytes:
    """Any bytes."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def value(self, data: bytes) -> Value:
        check_text(data, self._options, "record", NO_PARTS)
        return Value(t.BYTES, data)

    def column(self, data: Sequence[bytes]) -> Batch | None:
        return _whole(t.BYTES, data, self._options)


_MOST_BYTES = 1 << 30
"""Of a column; Arrow counts them in 32 bits."""


def _whole(typ: t.Type, data: Sequence[bytes], options: ReadOptions) -> Batch | None:
    """Records as a column; None if they are too long."""
    if sum(map(len, data)) > min(_MOST_BYTES, options.max_value_size):
        return None
    return Batch((Part(typ, pa.array(data, pa.binary()), np.arange(len(data))),) if data else (), len(data))


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise InvalidInput(f"invalid UTF-8 at byte {e.start + 1} (read it as it is with the decoder bytes)") from None


# ---- one by one


class _OneByOne:
    """A decoder that has no columns."""

    def __init__(self, read: Callable[[bytes, ReadOptions], Value], options: ReadOptions) -> None:
        self._read = read
        self._options = options

    def value(self, data: bytes) -> Value:
        check_text(data, self._options, "record", NO_PARTS)
        return self._read(data, self._options)

    def column(self, data: Sequence[bytes]) -> Batch | None:
        return None


PROTOBUF = t.record((("schema", t.INT32), ("message_indexes", t.array(t.INT32)), ("bytes", t.BYTES)))


def _protobuf(data: bytes, options: ReadOptions) -> Value:
    ident = schema_id(data, "to read a message without it, use the decoder bytes")
    indexes, pos = message_indexes(data, HEADER.size)
    return Value(PROTOBUF, (ident, indexes, data[pos:]))


def _zson(data: bytes, options: ReadOptions) -> Value:
    check_text(data, options, "record")
    return parse_value(_decoded(data))


def _zng(data: bytes, options: ReadOptions) -> Value:
    values = list(islice(zng_stream.read(io.BytesIO(data), options), 2))
    if len(values) != 1:
        raise InvalidInput(f"expected one ZNG value, found {'several' if values else 'none'}")
    return values[0]


def _avro(registry: Schemas | None, options: ReadOptions) -> Decoder:
    if registry is None:
        raise InvalidInput("the decoder avro needs a schema registry (give its URL)")
    return AvroDecoder(registry, options)


DECODERS: dict[str, Callable[[Schemas | None, ReadOptions], Decoder]] = {
    "json": lambda registry, options: _Json(options),
    "avro": _avro,
    "json-schema": lambda registry, options: _JsonWithSchema(options),
    "protobuf": lambda registry, options: _OneByOne(_protobuf, options),
    "debezium": lambda registry, options: DebeziumDecoder(options),
    "text": lambda registry, options: _Text(options),
    "bytes": lambda registry, options: _Bytes(options),
    "zson": lambda registry, options: _OneByOne(_zson, options),
    "zng": lambda registry, options: _OneByOne(_zng, options),
}
"""By the name in a configuration."""
