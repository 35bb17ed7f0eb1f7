"""Values on their way between tasks and the driver: ZNG streams of some size."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from shoal.formats.zng import stream as zng
from shoal.model.values import Value

_CHUNK = 1 << 20
"""Bytes of values that are handed over at a time."""


def decoded(data: bytes) -> Iterator[Value]:
    """The values of one or several streams."""
    return zng.read(io.BytesIO(data))


def encoded(values: Iterable[Value]) -> Iterator[bytes]:
    """Values as ZNG streams of some size."""
    out = io.BytesIO()
    writer = zng.Writer(out)
    has_any = False
    for value in values:
        writer.write(value)
        has_any = True
        if out.tell() >= _CHUNK:
            writer.close()
            yield out.getvalue()
            out = io.BytesIO()
            writer, has_any = zng.Writer(out), False
    if has_any:
        writer.close()
        yield out.getvalue()
