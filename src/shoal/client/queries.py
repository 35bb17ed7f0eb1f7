"""Queries over a lake behind a service. Errors in a program are raised at once; values are read as they arrive."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.api.commitish import parse_head
from shoal.api.options import Statistics
from shoal.client.failures import error_of_kind
from shoal.client.service import Call, Service, require_zng, unreadable
from shoal.client.transport import Answer
from shoal.errors import InvalidInput, Unsupported
from shoal.formats.zng import stream as zng
from shoal.frames.results import Endless, Results
from shoal.lang.source import Part, Source
from shoal.lazy import lazy
from shoal.model.fields import get_or, name_of
from shoal.model.parse import parse_value
from shoal.model.types import Type
from shoal.model.values import Value, record, string
from shoal.planner.files import read_text

if TYPE_CHECKING:
    from shoal.formats.arrow import exact
    from shoal.formats.columns import batches
    from shoal.formats.columns.batches import Batch, Piece
    from shoal.lang import parser
else:
    batches = lazy("shoal.formats.columns.batches")
    exact = lazy("shoal.formats.arrow.exact")
    parser = lazy("shoal.lang.parser")

_MAY_CHANGE = "load"
"""The one word that lets a program change something: without it, asking twice is safe."""


def full_text(program: str, includes: Sequence[str]) -> str:
    """The program with the texts of files in front, each on lines of its own.

    The service knows no names of files: what it could not parse is refused here, where errors have them.
    """
    if not includes:
        return program
    source = Source([*(Part(path, read_text(path)) for path in includes), Part("", program)])
    parser.parse_source(source)
    return source.text


def question(text: str, head: str | None, engine: str | None) -> Value:
    """A program as the service takes it."""
    fields = [("query", string(text))]
    if head is not None:
        pool, branch = parse_head(head)
        fields.append(("head", record([("pool", string(pool)), ("branch", string(branch))])))
    if engine is not None:
        fields.append(("engine", string(engine)))
    return record(fields)


def ask(
    service: Service,
    names: tuple[str, ...],
    body: Value,
    text: str,
    *,
    statistics: bool = False,
    on_debug: Callable[[Value], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
    on_output: Callable[[str, Value], None] | None = None,
    is_safe: bool | None = None,
    key: str | None = None,
    headers: Mapping[str, str] = {},
    choices: Mapping[str, str] = {},
) -> Results:
    """The results of a query."""
    wanted = {"ctrl": "T", "statistics": "T" if statistics else "F", "warnings": "T", "columns": "T", **choices}
    can_repeat = _MAY_CHANGE not in text.lower() if is_safe is None else is_safe
    call = Call("POST", names, wanted, headers, value=body, key=key, is_safe=can_repeat)
    return answered(service, call, text, on_debug, on_warning, on_output)


def answered(
    service: Service,
    call: Call,
    text: str,
    on_debug: Callable[[Value], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
    on_output: Callable[[str, Value], None] | None = None,
    has_beats: bool = False,
    shape: Type | None = None,
) -> Results:
    """The results that a call gives, with control messages between them."""
    counted = Statistics()
    answer = service.send(call)
    pieces = Stream(answer, counted, on_debug, on_warning, on_output, has_beats)
    values = Endless(pieces, answer.interrupt) if has_beats else pieces
    results = Results(text, values, counted, in_pieces=True, shape=shape)
    results.on_spark(_refuse)
    return results


_CHANGE = re.compile(r"\s*(?:insert|update|delete|merge|create)\b", re.IGNORECASE)


def told(results: Results, statement: str) -> Results:
    """The results of a statement in SQL. Those of a change are one record, and are taken at once: few ask for them."""
    return results if _CHANGE.match(statement) is None else results.hold()


def _refuse(times: str) -> Any:
    raise Unsupported("tasks of Spark do not read through a service (open the lake itself, or take to_arrow())")


_RESULTS, _DEBUG = "main", "debug"


class Stream:
    """Values of an answer, some of them in columns.

    Letting go of it before its end closes the connection, and the service stops.
    """

    def __init__(
        self,
        answer: Answer,
        statistics: Statistics,
        on_debug: Callable[[Value], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
        on_output: Callable[[str, Value], None] | None = None,
        has_beats: bool = False,
    ) -> None:
        """With `has_beats` an empty batch stands where the service says that there is no more for the moment."""
        require_zng(answer)
        self._has_beats = has_beats
        self._answer = answer
        self._statistics = statistics
        self._on_debug = on_debug
        self._on_warning = on_warning
        self._on_output = on_output
        self._channel = _RESULTS
        self._values = self._read()

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        return next(self._values)

    def close(self) -> None:
        """Stop here."""
        self._values.close()
        self._answer.close()

    def _read(self) -> Generator[Piece, None, None]:
        with self._answer:
            for item in self._messages():
                if isinstance(item, zng.Control):
                    if item.encoding == zng.BINARY_MESSAGE and self._channel == _RESULTS:
                        yield self._columns(item.body)
                    self._take(item)
                    if self._has_beats:
                        yield batches.EMPTY
                elif self._channel == _RESULTS:
                    yield item
                elif self._channel == _DEBUG:
                    if self._on_debug is not None:
                        self._on_debug(item)
                elif self._on_output is not None:
                    self._on_output(self._channel, item)

    def _messages(self) -> Iterator[Value | zng.Control]:
        try:
            yield from zng.read_messages(self._answer)
        except InvalidInput as e:
            raise unreadable(self._answer, e) from None

    def _columns(self, data: bytes) -> Batch:
        try:
            return exact.decode(data)
        except InvalidInput as e:
            raise unreadable(self._answer, e) from None

    def _take(self, control: zng.Control) -> None:
        """Handle a control message; unknown ones are skipped."""
        if control.encoding != zng.ZSON_MESSAGE:
            return
        message = parse_value(control.body.decode())
        match name_of(message):
            case "QueryChannelSet":
                self._channel = get_or(message, "channel", _RESULTS)
            case "QueryStats":
                counts = message.field("Progress") or message  # version 0.1.0 had no Progress
                for name in Statistics.__dataclass_fields__:
                    setattr(self._statistics, name, get_or(counts, name, 0))
            case "QueryWarning":
                if self._on_warning is not None:
                    self._on_warning(get_or(message, "warning", ""))
            case "QueryError":
                raise error_of_kind(get_or(message, "kind", ""), get_or(message, "error", ""))
