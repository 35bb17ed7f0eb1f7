"""Values through a writer, as bytes."""

from __future__ import annotations

import io
from collections.abc import Iterable

from shoal.formats.registry import Write
from shoal.formats.streams import WriteOptions
from shoal.model.values import Value


def written(writer: Write, values: Iterable[Value], options: WriteOptions = WriteOptions()) -> bytes:
    """What a writer makes of values, to the end of the stream."""
    out = io.BytesIO()
    stream = writer(out, options)
    for value in values:
        stream.write(value)
    stream.close()
    return out.getvalue()
