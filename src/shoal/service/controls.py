"""Control messages in the stream of a query's results: which channel, how it went, and what went wrong.

In ZNG they are frames of their own, in ZJSON lines whose type is a name. Other formats have no place for them.
"""

from __future__ import annotations

import json
from typing import Any

from shoal.formats.streams import Sink, WriteOptions
from shoal.formats.zjson import writer as zjson
from shoal.formats.zng import stream as zng
from shoal.model.fields import named
from shoal.model.text import format_value
from shoal.model.values import Value, int64, record, string

_ZSON = 2


class ZngWriter(zng.Writer):
    """ZNG with control frames."""

    def tell(self, name: str, **fields: Any) -> None:
        """Add a message."""
        message = named(name, *((key, _value(each)) for key, each in fields.items()))
        self.control(zng.Control(_ZSON, format_value(message).encode()))


class ZjsonWriter(zjson.Writer):
    """ZJSON with lines for control messages."""

    def __init__(self, out: Sink, options: WriteOptions) -> None:
        super().__init__(out, options)
        self._lines = out

    def tell(self, name: str, **fields: Any) -> None:
        """Add a message."""
        line = json.dumps({"type": name, "value": fields}, ensure_ascii=False, separators=(",", ":"))
        self._lines.write(line.encode() + b"\n")


WRITERS: dict[str, type[ZngWriter] | type[ZjsonWriter]] = {"zng": ZngWriter, "zjson": ZjsonWriter}


def _value(field: Any) -> Value:
    if isinstance(field, dict):
        return record([(key, _value(each)) for key, each in field.items()])
    return int64(field) if isinstance(field, int) else string(str(field))
