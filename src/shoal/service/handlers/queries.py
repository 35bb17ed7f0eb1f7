"""Queries: asked, explained, described, compiled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from shoal.access.limits import limited
from shoal.api.infos import Channel
from shoal.api.lake import Describe
from shoal.api.results import Results
from shoal.engines.stopping import Stop, stopped_by
from shoal.errors import InvalidInput, ShoalError, Stopped
from shoal.formats.streams import WriteOptions
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, Source
from shoal.model.values import Value, record, string
from shoal.service.answers import Answer, Streaming, Text
from shoal.service.calls import Call, head_text
from shoal.service.controls import WRITERS
from shoal.service.media import media_type, open_writer
from shoal.service.streaming import Chunks
from shoal.service.syntax import tree_as_json

_STATUS_SECONDS = 600.0


def query(call: Call) -> Answer:
    """Run a program and stream its results."""
    body = call.record({"query": str, "head": dict, "engine": str})
    head = head_text(body.get("head") or {})
    statistics, program, engine = call.is_set("statistics"), body.get("query", ""), body.get("engine")

    def ask(side: Aside) -> Results:
        with stopped_by(side.stop):
            return call.lake.query(
                program,
                head=head,
                statistics=statistics,
                on_debug=side.debug,
                on_warning=side.warn,
                engine=engine,
            )

    return stream(call, ask)


def sql(call: Call) -> Answer:
    """Run a SELECT statement and stream its results."""
    body = call.record({"statement": str, "engine": str})
    if "statement" not in body:
        raise InvalidInput("the body has to have a statement")

    def ask(side: Aside) -> Results:
        with stopped_by(side.stop):
            return call.lake.sql(body["statement"], engine=body.get("engine"), on_warning=side.warn)

    return stream(call, ask)


Ask = Callable[["Aside"], Results]
"""Asks a question, and is told where warnings and the like go, and what stops it."""


def stream(call: Call, ask: Ask) -> Streaming:
    """The results of a question. It is asked in the thread of the query: some of them are all work before any result,
    and whoever leaves meanwhile ends it.
    """
    place = ExitStack()
    place.enter_context(call.service.gate.enter(call.subject))
    running = _Answering(call, ask, Aside(call.warnings), place)
    call.service.queries.begin(call.id, call.subject)
    return Streaming(running.make, media_type(call.answer_format), running.stop, running.end)


class Aside:
    """What leaves a query by the side, as soon as there is a stream that it can go into; and what stops it."""

    def __init__(self, warnings: list[str]) -> None:
        self.writer: Any = None
        self.warn = warnings.append
        self.stop = Stop()

    def debug(self, value: Value) -> None:
        """A value that the operator `debug` sees; it comes before those that are made of it."""
        if self.writer is not None:
            self.writer.tell("QueryChannelSet", channel="debug")
            self.writer.write(value)
            self.writer.tell("QueryChannelSet", channel="main")


class _Answering:
    """Results on their way out."""

    def __init__(self, call: Call, ask: Ask, aside: Aside, place: ExitStack) -> None:
        self._call = call
        self._ask = ask
        self._aside = aside
        self._place = place
        self._error = ""

    def stop(self) -> None:
        """The client has gone away."""
        self._aside.stop.stop(Stopped("the client has gone away"))
        self._call.service.metrics.stopped.inc()

    def make(self, chunks: Chunks) -> None:
        """Write the results."""
        call, service = self._call, self._call.service
        was_asked = False
        try:
            with service.metrics.queries.track_inprogress(), self._asked() as results:
                was_asked = True
                self._write(chunks, results)
        except ShoalError as e:
            self._error = str(e)
            if was_asked:
                service.log("warn", "Error writing batch", request_id=call.id, error=self._error)
            raise

    def _asked(self) -> Results:
        limits = self._call.service.settings.limits.query
        return limited(limits, self._aside.stop, lambda: self._ask(self._aside))

    def end(self) -> None:
        """The answer is over, or never began."""
        self._place.close()
        self._call.service.queries.end(self._call.id, self._call.subject, self._error)

    def _write(self, chunks: Chunks, results: Results) -> None:
        call = self._call
        if call.is_set("ctrl") and call.answer_format.name in WRITERS:
            self._write_controlled(chunks, results)
            return
        writer = open_writer(call.answer_format)(chunks)
        flush = getattr(writer, "flush", None)
        for value in results:
            writer.write(value)
            if chunks.is_due():
                if flush is not None:
                    flush()
                chunks.flush()
        writer.close()

    def _write_controlled(self, chunks: Chunks, results: Results) -> None:
        call, began = self._call, time.time_ns()
        writer = self._aside.writer = WRITERS[call.answer_format.name](chunks, WriteOptions())
        try:
            writer.tell("QueryChannelSet", channel="main")
            told = 0
            for value in results:
                writer.write(value)
                if chunks.is_due():
                    told = _tell_warnings(writer, call.warnings, told)
                    writer.tell("QueryStats", **_statistics(results, began))
                    chunks.flush()
            _tell_warnings(writer, call.warnings, told)
            writer.tell("QueryChannelEnd", channel="main")
            writer.tell("QueryStats", **_statistics(results, began))
        except ShoalError as e:
            # The stream has begun: the error is its last message, and the client raises it.
            writer.tell("QueryError", error=str(e), kind=e.kind)
            self._error = str(e)
        with suppress(ShoalError):
            writer.close()


def _statistics(results: Results, began: int) -> dict[str, Any]:
    read = results.statistics
    return {
        "start_time": _moment(began),
        "update_time": _moment(time.time_ns()),
        "bytes_read": read.bytes_read,
        "bytes_matched": read.bytes_matched,
        "records_read": read.records_read,
        "records_matched": read.records_matched,
    }


def _tell_warnings(writer: Any, warnings: list[str], told: int) -> int:
    for warning in warnings[told:]:
        writer.tell("QueryWarning", warning=warning)
    return len(warnings)


def _moment(ns: int) -> dict[str, int]:
    return {"sec": ns // 10**9, "ns": ns % 10**9}


def status(call: Call) -> Answer:
    """The error of a query, once it has ended."""
    error = call.service.queries.wait(call.path["request"], call.subject, _STATUS_SECONDS)
    return record([("error", string(error))])


def describe(call: Call) -> Answer:
    """Show where the results of a query come from, and how they are arranged."""
    body = call.record({"query": str, "head": dict, "engine": str})
    description = call.lake.do(Describe(body.get("query", ""), head_text(body.get("head") or {})))
    shown = {
        "sources": [
            {"kind": "Pool", "name": pool.name, "id": pool.id, "inferred": pool.is_inferred}
            for pool in description.pools
        ],
        "channels": [_show_channel(channel) for channel in description.channels],
    }
    return Text(json.dumps(shown, ensure_ascii=False) + "\n", "application/json")


def _show_channel(channel: Channel) -> dict[str, Any]:
    order = channel.order
    return {
        "name": channel.name,
        "aggregation_keys": None if channel.keys is None else [list(path) for path in channel.keys],
        "sort": None if order is None else [{"order": which, "key": list(path)} for which, path in order],
    }


def compile_program(call: Call) -> Answer:
    """The syntax tree of a program."""
    program = call.record({"query": str}).get("query", "")
    return Text(tree_as_json(parse_source(Source([Part("", program)]))), "application/json")
