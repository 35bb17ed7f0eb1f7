"""Queries: asked, explained, described, compiled."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any

from shoal.access.limits import limited
from shoal.api.changes import NO_CHANGES, Changes
from shoal.api.infos import MAIN, Channel
from shoal.api.lake import Describe
from shoal.api.queries import Sql
from shoal.api.results import Results
from shoal.engines.stopping import Stop, stopped_by
from shoal.errors import InvalidInput, ShoalError
from shoal.lang.ast import Seq
from shoal.lang.parser import parse_source
from shoal.lang.source import Part, Source
from shoal.model import types as t
from shoal.model.text import format_type, format_value
from shoal.model.values import Value, record, string
from shoal.service.answers import Answer, Chunks, Pending, Streaming, Text
from shoal.service.calls import Call, head_text
from shoal.service.media import media_type
from shoal.service.result_writers import DEBUG, ControlledResults, PlainResults, ResultWriter, has_controls

_STATUS_SECONDS = 600.0
_OWN_AGENT = "shoal/"


def query(call: Call) -> Answer:
    """Run a program and stream its results."""
    body = call.record({"query": str, "head": dict, "engine": str})
    head = head_text(body.get("head") or {})
    program, engine = body.get("query", ""), body.get("engine")
    # Clients of Zed expect counts wherever there are control messages.
    statistics = call.is_set("statistics" if "statistics" in call.params else "ctrl")

    def ask(output: Output) -> Results:
        with stopped_by(output.stop):
            return call.lake.query(
                program,
                head=head,
                statistics=statistics,
                on_debug=lambda value: output.write(value, DEBUG),
                on_warning=call.warnings.append,
                engine=engine,
                on_output=lambda channel, value: output.write(value, channel),
            )

    return stream(call, ask, _channels(call, program, head))


def _channels(call: Call, program: str, head: str | None) -> tuple[str, ...]:
    """The channels that a program writes to. Only the operator `output` makes any but `main`."""
    if not call.is_set("ctrl") or "output" not in program:
        return (MAIN,)
    return tuple(channel.name for channel in call.lake.do(Describe(program, head)).channels)


def sql(call: Call) -> Answer:
    """Run a statement in SQL and stream its results."""
    body = call.record({"statement": str, "engine": str})
    if "statement" not in body:
        raise InvalidInput("the body has to have a statement")
    # The key of a request is looked at only if the statement changes something.
    request = Sql(body["statement"], body.get("engine"), call.warnings.append, call.note(), call.operation)

    def ask(output: Output) -> Results:
        with stopped_by(output.stop):
            return call.lake.do(request)

    return stream(call, ask)


def changes(call: Call) -> Answer:
    """Stream the changes of records."""
    given: Any = call.request(Changes)
    is_uniform = given.uniform or call.answer_format.takes_one_type
    request: Changes = replace(given, on_warning=call.warnings.append, uniform=is_uniform)

    def ask(output: Output) -> Results:
        with stopped_by(output.stop):
            return call.lake.do(request)

    return stream(call, ask, shape=NO_CHANGES)


class Output:
    """Where a query that runs sends values beside its results, and what stops it."""

    def __init__(self, stop: Stop) -> None:
        self.writer: ResultWriter | None = None
        self.stop = stop

    def write(self, value: Value, channel: str) -> None:
        """Write a value to a channel other than `main`."""
        if self.writer is not None:
            self.writer.write(value, channel)


Ask = Callable[[Output], Results]
"""Starts a query."""


def stream(call: Call, ask: Ask, channels: tuple[str, ...] = (MAIN,), shape: t.Type | None = None) -> Streaming:
    """Stream the results of a query, which are of a type that is known if there are none.

    The query starts in the thread that writes: some do all their work before the first result, and stop if the client
    goes away meanwhile.
    """
    return _QueryStream(call, ask, channels, shape)


class _QueryStream(Streaming):
    """The results of a query."""

    def __init__(self, call: Call, ask: Ask, channels: tuple[str, ...], shape: t.Type | None) -> None:
        super().__init__(media_type(call.answer_format))
        self._call = call
        self._ask = ask
        self._channels = channels
        self._shape = shape
        self._output = Output(self.stopping)
        self._error = ""

    def begin(self) -> None:
        self._call.service.queries.begin(self._call.id, self._call.subject)

    def stop(self, why: ShoalError) -> None:
        super().stop(why)
        self._call.service.metrics.stopped.inc()

    def write(self, chunks: Chunks) -> None:
        call, service = self._call, self._call.service
        has_started = False
        try:
            with service.metrics.queries.track_inprogress(), self._start() as results:
                has_started = True
                self._write_results(self._open_writer(chunks, results), results)
        except ShoalError as e:
            self._error = service.public_text(e)
            if has_started:
                service.log("warn", "Error writing batch", request_id=call.id, error=str(e))
            raise

    def end(self) -> None:
        self._call.service.queries.end(self._call.id, self._call.subject, self._error)

    def _start(self) -> Results:
        # The time of every stream is limited where it is written.
        limits = replace(self._call.service.settings.limits.query, seconds=None)
        return limited(limits, self._output.stop, lambda: self._ask(self._output))

    def _open_writer(self, chunks: Chunks, results: Results) -> ResultWriter:
        call, name = self._call, self._call.answer_format.name
        if not call.is_set("ctrl") or not has_controls(call.answer_format):
            return PlainResults(chunks, call.answer_format, self._shape)
        warnings = call.warnings if _reads_warnings(call) else None
        has_columns = call.is_set("columns")
        return ControlledResults(chunks, name, self._channels, results.statistics, warnings, has_columns)

    def _write_results(self, writer: ResultWriter, results: Results) -> None:
        self._output.writer = writer
        try:
            for piece in results.pieces():
                if isinstance(piece, Value):
                    writer.write(piece)
                else:
                    writer.write_batch(piece)
            writer.end()
        except ShoalError as e:
            # The stream has begun: where it can, it ends with the error, and the client raises that.
            with suppress(ShoalError):
                text = self._call.service.public_text(e)
                if writer.fail(e.kind, text):
                    self._error = text
                    return
            raise


def _reads_warnings(call: Call) -> bool:
    """Whether the client can read a QueryWarning. Those of Zed v1.18 fail on control messages that they do not know."""
    return call.is_set("warnings") or call.headers.get("user-agent", "").startswith(_OWN_AGENT)


def status(call: Call) -> Answer:
    """The error of a query, once it has ended."""
    queries, ident, subject = call.service.queries, call.path["request"], call.subject

    async def wait() -> Value:
        return record([("error", string(await queries.wait(ident, subject, _STATUS_SECONDS)))])

    return Pending(wait)


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


def tree_as_json(program: Seq) -> str:
    """A program as JSON."""
    return json.dumps(_plain(program), ensure_ascii=False, separators=(",", ":")) + "\n"


def _plain(node: Any) -> Any:
    if isinstance(node, Value):
        return {"kind": "Value", "text": format_value(node)}
    if isinstance(node, t.Type):
        return {"kind": "Type", "text": format_type(node)}
    if is_dataclass(node) and not isinstance(node, type):
        return {"kind": type(node).__name__, **{f.name: _plain(getattr(node, f.name)) for f in fields(node)}}
    if isinstance(node, dict):
        return {str(key): _plain(each) for key, each in node.items()}
    if isinstance(node, (list, tuple)):
        return [_plain(each) for each in node]
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    return str(node)
