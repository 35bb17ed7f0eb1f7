"""Avro records behind the ids of their schemas: each schema is fetched and compiled once.

Data without a schema cannot be told from damage, so all bytes have to be read: too many are an error, as too few are.
A time that ours cannot hold is not damage: see `connect_types`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro
import orjson

from shoal.api.options import ReadOptions
from shoal.connect.kafka.connect_types import UnfitLeaf, avro_type, keeping
from shoal.connect.kafka.registry import Schema, Schemas
from shoal.connect.kafka.wire_format import HEADER, schema_id
from shoal.errors import InvalidInput, NotFound
from shoal.formats.avro.schemas import Node, compile_schema
from shoal.formats.columns.batches import Batch
from shoal.formats.limits import LIGHT, NO_PARTS, at, check_memory, check_text
from shoal.model.values import Value


class CompiledSchema:
    """A schema, ready to read by."""

    def __init__(self, schema: Any, others: list[Any]) -> None:
        """`others` are those that it refers to."""
        self._schema, self._others = schema, others
        self.node = compile_schema(schema, others, avro_type)
        self._plain = fastavro.parse_schema(self.node.plain)
        self._variants: dict[frozenset[int], Node] = {}
        """The schema where some leaves keep their base type, for records with values that do not fit another."""

    def value(self, data: bytes, start: int) -> Value:
        """The value in the bytes from a position to the end."""
        stream = io.BytesIO(data)
        stream.seek(start)
        try:
            read = fastavro.schemaless_reader(stream, self._plain, None, True, True)
        except Exception as e:
            raise InvalidInput(f"malformed record ({type(e).__name__}: {' '.join(str(e).split())})") from None
        if rest := len(data) - stream.tell():
            raise InvalidInput(f"{rest} bytes after the end of the record (is it of another schema?)")
        try:
            return self.node.value(read)
        except InvalidInput:
            return self._with_care(read)

    def _with_care(self, read: Any) -> Value:
        """A value with times or dates that ours cannot hold, if that is all that is wrong with it."""
        unfit = frozenset[int]()
        while True:
            if unfit not in self._variants:
                self._variants[unfit] = compile_schema(self._schema, self._others, keeping(unfit))
            try:
                return self._variants[unfit].value(read)
            except UnfitLeaf as e:
                unfit |= {e.leaf}


class AvroDecoder:
    """Decodes records by the schemas of a registry."""

    def __init__(self, registry: Schemas, options: ReadOptions) -> None:
        self._registry = registry
        self._options = options
        self._compiled: dict[int, CompiledSchema | InvalidInput] = {}

    def value(self, data: bytes) -> Value:
        check_text(data, self._options, "record", NO_PARTS)
        compiled = self._schema(schema_id(data, "Avro needs one: is it a record of another format?"))
        if len(data) > LIGHT:
            check_memory(len(data) * compiled.node.growth, self._options, "record")
        return compiled.value(data, HEADER.size)

    def column(self, data: Sequence[bytes]) -> Batch | None:
        return None

    def _schema(self, ident: int) -> CompiledSchema:
        compiled = self._compiled.get(ident)
        if compiled is None:
            try:
                schema = self._registry.schema(ident)
            except NotFound as e:
                raise InvalidInput(str(e)) from None  # the record is at fault, and may be right later
            try:
                compiled = parsed(schema)
            except InvalidInput as e:
                compiled = e
            self._compiled[ident] = compiled
        if isinstance(compiled, InvalidInput):
            raise at(f"{self._registry.name}: schema {ident}", compiled)
        return compiled


def parsed(schema: Schema) -> CompiledSchema:
    """A schema of a registry, ready to read by."""
    if schema.kind != "AVRO":
        raise InvalidInput(f"a schema of kind {schema.kind}, not AVRO")
    try:
        main, *others = [orjson.loads(text) for text in (schema.text, *schema.references)]
    except orjson.JSONDecodeError as e:
        raise InvalidInput(f"not JSON ({e})") from None
    return CompiledSchema(main, others)
