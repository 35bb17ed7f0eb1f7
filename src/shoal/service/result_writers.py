"""Write the results of a query, with control messages between them if the client asks for these.

Control messages name the channel of the values that follow, count what was read, warn, and report an error. In ZNG
they are frames of their own, in ZJSON lines whose type is a name. Other formats cannot carry them. To a client that
asks for it, ZNG also brings values in columns, as control messages of the binary encoding.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from shoal.api.infos import MAIN
from shoal.api.options import Statistics
from shoal.formats.registry import Format
from shoal.formats.streams import WriteOptions
from shoal.formats.zjson import writer as zjson
from shoal.formats.zng import stream as zng
from shoal.lazy import lazy
from shoal.model.fields import named, time_value
from shoal.model.text import format_value
from shoal.model.types import Type
from shoal.model.values import Value, int64, string
from shoal.service.answers import Chunks
from shoal.service.media import open_writer

if TYPE_CHECKING:
    from shoal.formats.arrow import exact
    from shoal.formats.columns.batches import Batch
else:
    exact = lazy("shoal.formats.arrow.exact")

DEBUG = "debug"
_FEW = 100
"""Values that are not worth columns."""
_SLICE = 4 << 20
"""Bytes of a control message with columns, or about that."""
_TOGETHER = 100
"""How many values of a channel other than `main` are collected before they are written."""


class ResultWriter(Protocol):
    """Writes the values of all channels of a query."""

    def write(self, value: Value, channel: str = MAIN) -> None:
        """Write a value."""

    def write_batch(self, batch: Batch) -> None:
        """Write values that come in columns. After an empty batch nothing waits for more."""

    def end(self) -> None:
        """Write what is left after the last value."""

    def fail(self, kind: str, error: str) -> bool:
        """Write an error as the last message; False if the format cannot carry it."""


class PlainResults:
    """Values of all channels but `debug`, and nothing else."""

    def __init__(self, chunks: Chunks, answer_format: Format, shape: Type | None = None) -> None:
        """`shape` is the type of the values, if there are none."""
        self._chunks = chunks
        self._writer = open_writer(answer_format, shape=shape)(chunks)
        self._flush = getattr(self._writer, "flush", None)

    def write(self, value: Value, channel: str = MAIN) -> None:
        if channel == DEBUG:
            return
        self._writer.write(value)
        if self._chunks.is_due():
            self._send()

    def write_batch(self, batch: Batch) -> None:
        for value in batch.values():
            self.write(value)
        if not batch.length:
            self._send()

    def _send(self) -> None:
        if self._flush is not None:
            self._flush()
        self._chunks.flush()

    def end(self) -> None:
        self._writer.close()

    def fail(self, kind: str, error: str) -> bool:
        return False


class ControlledResults:
    """Values with control messages between them."""

    def __init__(
        self,
        chunks: Chunks,
        format_name: str,
        channels: Sequence[str],
        statistics: Statistics,
        warnings: Sequence[str] | None,
        has_columns: bool = False,
    ) -> None:
        """`has_columns` says that the client reads columns among the control messages."""
        self._chunks = chunks
        self._messages = _MESSAGES[format_name](chunks)
        self._channels = dict.fromkeys(channels)
        self._statistics = statistics
        self._warnings = warnings
        """None if the client cannot read warnings."""
        self._has_columns = has_columns
        self._warned = 0
        self._channel = ""
        self._collected: dict[str, list[Value]] = {}
        self._start = time.time_ns()

    def write(self, value: Value, channel: str = MAIN) -> None:
        if channel in (MAIN, DEBUG):
            self._put(channel, value)
        else:
            waiting = self._collected.setdefault(channel, [])
            waiting.append(value)
            if len(waiting) >= _TOGETHER:
                self._put_collected(channel)
        self._send_if_due()

    def write_batch(self, batch: Batch) -> None:
        messages = self._messages
        if not self._has_columns or not isinstance(messages, _ZngMessages) or batch.length < _FEW:
            for value in batch.values():
                self.write(value)
            if not batch.length:
                self._send()
            return
        for run in exact.slices(batch, _SLICE):
            self._set_channel(MAIN)
            messages.writer.control(zng.Control(zng.BINARY_MESSAGE, exact.encode(run)))
            self._send_if_due()

    def _send_if_due(self) -> None:
        if self._chunks.is_due():
            self._send()

    def _send(self) -> None:
        for each in list(self._collected):
            self._put_collected(each)
        self._put_warnings()
        self._messages.statistics(self._statistics, self._start)
        self._chunks.flush()

    def end(self) -> None:
        for channel in list(self._collected):
            self._put_collected(channel)
        self._put_warnings()
        for channel in self._channels:
            self._messages.control("QueryChannelEnd", channel=channel)
        self._messages.statistics(self._statistics, self._start)
        self._messages.writer.close()

    def fail(self, kind: str, error: str) -> bool:
        self._messages.control("QueryError", error=error, kind=kind)
        self._messages.writer.close()
        return True

    def _put_collected(self, channel: str) -> None:
        for value in self._collected.pop(channel, ()):
            self._put(channel, value)

    def _put(self, channel: str, value: Value) -> None:
        self._set_channel(channel)
        self._messages.writer.write(value)

    def _set_channel(self, channel: str) -> None:
        if channel != self._channel:
            self._channel = channel
            self._channels[channel] = None
            self._messages.control("QueryChannelSet", channel=channel)

    def _put_warnings(self) -> None:
        if self._warnings is None:
            return
        for warning in self._warnings[self._warned :]:
            self._messages.control("QueryWarning", warning=warning)
        self._warned = len(self._warnings)


class _ZngMessages:
    """Values and control messages in ZNG; a message is a value in ZSON."""

    def __init__(self, chunks: Chunks) -> None:
        self.writer = zng.Writer(chunks)

    def control(self, name: str, **fields: str) -> None:
        self._write(named(name, *((key, string(text)) for key, text in fields.items())))

    def statistics(self, statistics: Statistics, start: int) -> None:
        counts = ((name, int64(getattr(statistics, name))) for name in Statistics.__dataclass_fields__)
        times = ("start_time", time_value(start)), ("update_time", time_value(time.time_ns()))
        self._write(named("QueryStats", *times, ("Progress", named("Progress", *counts))))

    def _write(self, message: Value) -> None:
        self.writer.control(zng.Control(zng.ZSON_MESSAGE, format_value(message).encode()))


class _ZjsonMessages:
    """Values and control messages in ZJSON."""

    def __init__(self, chunks: Chunks) -> None:
        self.writer = zjson.Writer(chunks, WriteOptions())
        self._lines = chunks

    def control(self, name: str, **fields: Any) -> None:
        line = json.dumps({"type": name, "value": fields}, ensure_ascii=False, separators=(",", ":"))
        self._lines.write(line.encode() + b"\n")

    def statistics(self, statistics: Statistics, start: int) -> None:
        counts = {name: getattr(statistics, name) for name in Statistics.__dataclass_fields__}
        self.control("QueryStats", start_time=_time(start), update_time=_time(time.time_ns()), **counts)


_MESSAGES: dict[str, type[_ZngMessages] | type[_ZjsonMessages]] = {"zng": _ZngMessages, "zjson": _ZjsonMessages}


def has_controls(answer_format: Format) -> bool:
    """Whether a format can carry control messages."""
    return answer_format.name in _MESSAGES


def _time(ns: int) -> dict[str, int]:
    return {"sec": ns // 10**9, "ns": ns % 10**9}
