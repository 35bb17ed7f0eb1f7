"""JSON of Kafka Connect, such as the change events of Debezium, with its schema or without.

    {"before":null,"after":{"id":1},"op":"c"}                  exact JSON
    {"schema":{"type":"struct",...},"payload":{"before":...}}  the payload, with the types that the schema gives it

Each record repeats its schema, which is longer than the payload. So it is not parsed: a record that begins with the
same bytes as an earlier one, up to its payload, has the same schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import orjson

from shoal.api.options import ReadOptions
from shoal.connect.kafka.connect_schemas import ConnectSchema, Inexact
from shoal.errors import InvalidInput
from shoal.formats.columns.batches import Batch
from shoal.formats.json.column_reader import RecordReader
from shoal.formats.json.reader import decode_record, typed
from shoal.formats.limits import LimitExceeded, check_text
from shoal.model import types as t
from shoal.model.values import Value

_KEYS = ["schema", "payload"]
_PAYLOAD = re.compile(rb'"payload"[ \t\r\n]*:[ \t\r\n]*')
_MOST_PREFIXES = 32
_MOST_SCHEMAS = 1000
_MOST_PLACES = 16
"""Where the payload may begin: a field of the schema may have this name, too."""


class DebeziumDecoder:
    """Decodes JSON by the schema that it brings, if it brings one."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._columns = RecordReader(options)
        self._prefixes: list[tuple[bytes, ConnectSchema]] = []
        """The bytes before payloads, and their schemas; those that came last are first."""
        self._schemas: dict[bytes, ConnectSchema] = {}

    def value(self, data: bytes) -> Value:
        check_text(data, self._options, "record")
        for i, (prefix, schema) in enumerate(self._prefixes):
            if data.startswith(prefix) and data.endswith(b"}"):
                if i:
                    self._prefixes.insert(0, self._prefixes.pop(i))
                try:
                    return schema.value(orjson.loads(memoryview(data)[len(prefix) : -1]))
                except (orjson.JSONDecodeError, Inexact):
                    break  # a closer look says what is wrong with it, if anything is
        return self._with_care(data)

    def column(self, data: Sequence[bytes]) -> Batch | None:
        if any(record.startswith(b'{"schema":') for record in data):
            return None
        batch = self._columns.read(data)
        return None if batch is None or any(_is_envelope(part.shape) for part in batch.parts) else batch

    def _with_care(self, data: bytes) -> Value:
        """A value whose schema is not known yet, or that has none."""
        try:
            decoded = orjson.loads(data)
        except orjson.JSONDecodeError:
            value = decode_record(data)
            if not _is_envelope(value.type):
                return value
            decoded = _exactly(data)
        if type(decoded) is not dict or decoded.keys() != set(_KEYS):
            return Value(*typed(decoded))
        schema, payload = decoded["schema"], decoded["payload"]
        if schema is None:
            return Value(*typed(payload))
        if type(schema) is not dict or type(schema.get("type")) is not str:
            return Value(*typed(decoded))
        compiled = self._schema(data, schema)
        try:
            return compiled.value(payload)
        except Inexact:
            return compiled.value(_exactly(data)["payload"])

    def _schema(self, data: bytes, schema: Any) -> ConnectSchema:
        """The schema of a record, compiled once; the bytes before its payload are remembered."""
        try:
            text = orjson.dumps(schema)
        except TypeError:  # too deep, or of odd numbers
            return ConnectSchema(schema)
        compiled = self._schemas.get(text)
        if compiled is None:
            compiled = ConnectSchema(schema)
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            self._schemas[text] = compiled
        prefix = _prefix(data, text)
        if prefix is not None and all(prefix != known for known, _ in self._prefixes):
            self._prefixes.insert(0, (prefix, compiled))
            del self._prefixes[_MOST_PREFIXES:]
        return compiled


def _is_envelope(shape: t.Type) -> bool:
    return isinstance(shape, t.Record) and shape.index.keys() == set(_KEYS)


def _prefix(data: bytes, schema: bytes) -> bytes | None:
    """The bytes of a record before its payload; None if the schema does not stand there, or not alone."""
    for count, place in enumerate(_PAYLOAD.finditer(data)):
        if count == _MOST_PLACES:
            return None
        try:
            begun = orjson.loads(data[: place.end()] + b"null}")
        except orjson.JSONDecodeError:
            continue
        is_alone = list(begun) == _KEYS and orjson.dumps(begun["schema"]) == schema
        return data[: place.end()] if is_alone else None
    return None


def _refuse(word: str) -> Any:
    raise InvalidInput(f"{word} is not JSON")


def _exactly(data: bytes) -> Any:
    """Decoded JSON with the digits of its numbers as they are written."""
    try:
        return json.loads(data, parse_float=Decimal, parse_constant=_refuse)
    except RecursionError:
        raise LimitExceeded(f"value nests deeper than {t.MAX_DEPTH} levels") from None
    except ValueError as e:
        raise InvalidInput(f"not JSON ({e})") from None
