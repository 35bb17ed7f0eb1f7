"""Encoders of records: one table by name, the other way of the decoders.

    json          JSON; what it has no word for is written as text, see `shoal.formats.json.writer`
    avro          Avro by a schema of a registry, which is registered, and widened for values of other shapes
    text, bytes   strings, or bytes, as they are
    zson, zng     any value, with its type

An encoder writes a value exactly, or says with InvalidInput which field of it cannot be written.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import fastavro
import orjson

from shoal.connect.kafka.avro_merging import merged
from shoal.connect.kafka.avro_schemas import schema_of
from shoal.connect.kafka.registry import Registry, Schema
from shoal.connect.kafka.wire_format import with_header
from shoal.errors import InvalidInput
from shoal.formats.avro.schemas import compile_schema
from shoal.formats.avro.writing import Write, writer
from shoal.formats.json.writer import to_json
from shoal.formats.streams import WriteOptions
from shoal.formats.zng import stream as zng_stream
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.suggestions import did_you_mean


class Encoder(Protocol):
    """Makes records of values."""

    def prepare(self, shapes: Iterable[t.Type]) -> None:
        """Get ready for values of these shapes, so that one schema is registered for all of them."""

    def encode(self, value: Value) -> bytes:
        """The record of a value. InvalidInput if it cannot be written exactly."""


def open_encoder(name: str, registry: Registry | None = None, subject: str = "", record: str = "") -> Encoder:
    """The encoder of a name. Avro needs a registry, a subject, and the name of its records (default: the subject)."""
    if name not in ENCODERS:
        guess = did_you_mean(name, ENCODERS)
        raise InvalidInput(f"no encoder named {name!r}{guess} (one of: {', '.join(sorted(ENCODERS))})")
    return ENCODERS[name](registry, subject, record)


class _Stateless:
    """An encoder that needs no schema."""

    def __init__(self, write: Callable[[Value], bytes]) -> None:
        self._write = write

    def prepare(self, shapes: Iterable[t.Type]) -> None:
        """Nothing to do."""

    def encode(self, value: Value) -> bytes:
        return self._write(value)


def _text(value: Value) -> bytes:
    if value.type.under is not t.STRING or value.data is None:
        raise InvalidInput(f"{_kind(value)} is not a string (write it with the encoder zson)")
    return str(value.data).encode()


def _bytes(value: Value) -> bytes:
    if value.type.under is not t.BYTES or value.data is None:
        raise InvalidInput(f"{_kind(value)} is not bytes (write it with the encoder zson)")
    return bytes(value.data)


def _kind(value: Value) -> str:
    return "null" if value.data is None else f"a value of kind {value.type.under.kind}"


def _zng(value: Value) -> bytes:
    out = io.BytesIO()
    stream = zng_stream.Writer(out, WriteOptions(zng_compress=False))
    stream.write(value)
    stream.close()
    return out.getvalue()


# ---- Avro


class AvroSchema:
    """A schema, and how values of the shapes that have come are written by it."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._node = compile_schema(schema)
        self._plain = fastavro.parse_schema(self._node.plain)
        self._writers: dict[t.Type, Write] = {}

    def body(self, value: Value) -> bytes:
        """A value in Avro, without a header."""
        write = self._writers.get(value.type)
        if write is None:
            write = self._writers[value.type] = writer(self._node, value.type)
        out = io.BytesIO()
        written = write(value.data)
        try:
            fastavro.schemaless_writer(out, self._plain, written)
        except (ValueError, TypeError, OverflowError, RecursionError) as e:
            raise InvalidInput(f"cannot be written as Avro ({' '.join(str(e).split())})") from None
        return out.getvalue()


class AvroEncoder:
    """Encodes values by the latest schema of a subject, which it widens when values of other shapes come."""

    def __init__(self, registry: Registry, subject: str, record: str = "") -> None:
        self._registry = registry
        self._subject = subject
        self._record = record or subject.removesuffix("-value").removesuffix("-key")
        self._ident = 0
        self._schema: AvroSchema | None = None
        self._shapes: set[t.Type] = set()
        """Those that the schema takes."""
        self._refused: dict[t.Type, str] = {}
        """Those that no schema takes beside the others, and why."""

    def prepare(self, shapes: Iterable[t.Type]) -> None:
        new = [shape for shape in shapes if shape not in self._shapes and shape not in self._refused]
        if not new:
            return
        if self._schema is None:
            self._open()
        before = schema = None if self._schema is None else self._schema.schema
        fitting = []
        for shape in new:
            try:
                schema = schema_of(shape, self._record) if schema is None else merged(schema, shape)
            except InvalidInput as e:
                self._refused[shape] = str(e)
            else:
                fitting.append(shape)
        if schema != before:
            self._register(schema)
        self._shapes.update(fitting)

    def encode(self, value: Value) -> bytes:
        if value.type not in self._shapes:
            self.prepare([value.type])
        if value.type in self._refused:
            raise InvalidInput(self._refused[value.type])
        assert self._schema is not None
        return with_header(self._ident, self._schema.body(value))

    def _open(self) -> None:
        """Go on with the latest schema of the subject, if there is one."""
        latest = self._registry.latest(self._subject)
        if latest is None:
            return
        if latest.schema.kind != "AVRO" or latest.schema.references:
            raise InvalidInput(f"{self._registry.name}: the schema of {self._subject} is not one of Avro alone")
        self._ident, self._schema = latest.id, AvroSchema(orjson.loads(latest.schema.text))

    def _register(self, schema: Any) -> None:
        compiled = AvroSchema(schema)
        text = orjson.dumps(schema).decode()
        self._ident = self._registry.register(self._subject, Schema("AVRO", text))
        self._schema = compiled


def _avro(registry: Registry | None, subject: str, record: str) -> Encoder:
    if registry is None or not subject:
        raise InvalidInput("the encoder avro needs a schema registry and a subject (give the URL, and a topic)")
    return AvroEncoder(registry, subject, record)


ENCODERS: dict[str, Callable[[Registry | None, str, str], Encoder]] = {
    "json": lambda *_: _Stateless(lambda value: to_json(value).encode()),
    "avro": _avro,
    "text": lambda *_: _Stateless(_text),
    "bytes": lambda *_: _Stateless(_bytes),
    "zson": lambda *_: _Stateless(lambda value: format_value(value).encode()),
    "zng": lambda *_: _Stateless(_zng),
}
"""By the name in a configuration."""
