"""Reads Avro container files with fastavro. A file whose schema is a union gives values of the types in it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import fastavro

from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput, ShoalError
from shoal.formats.avro.container import Container
from shoal.formats.avro.schemas import compile_schema
from shoal.formats.limits import at
from shoal.formats.streams import Source
from shoal.model.values import Value

_NAME = "avro"


def read(source: Source, options: ReadOptions) -> Iterator[Value]:
    """The values of a file."""
    try:
        yield from _values(source, options)
    except InvalidInput as e:
        raise at(_NAME, e) from None


def _values(source: Source, options: ReadOptions) -> Iterator[Value]:
    container = Container(source, options)
    node = compile_schema(container.header.schema)
    yield from map(node.value, _records(container.plain(node.plain, node.growth)))


def _records(plain: io.BufferedReader) -> Iterator[Any]:
    """What fastavro makes of the records; whatever it raises about them is InvalidInput."""
    try:
        yield from fastavro.reader(plain, return_record_name=True, return_record_name_override=True)
    except ShoalError:
        raise
    except Exception as e:
        raise InvalidInput(f"malformed record ({type(e).__name__}: {' '.join(str(e).split())})") from None
