"""The values that a query gives, as they come from a service, with what it says beside them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from shoal.api.options import Statistics
from shoal.client.failures import error_of_kind
from shoal.client.service import require_zng, unreadable
from shoal.client.transport import Answer
from shoal.errors import InvalidInput
from shoal.formats.zng import stream as zng
from shoal.model.fields import get_or, name_of
from shoal.model.parse import parse_value
from shoal.model.values import Value

_ZSON = 2
_RESULTS, _DEBUG = "main", "debug"


class Stream:
    """Values of an answer. Letting go of it before its end closes the connection, and the service stops."""

    def __init__(
        self,
        answer: Answer,
        statistics: Statistics,
        on_debug: Callable[[Value], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
        on_output: Callable[[str, Value], None] | None = None,
    ) -> None:
        require_zng(answer)
        self._answer = answer
        self._statistics = statistics
        self._on_debug = on_debug
        self._on_warning = on_warning
        self._on_output = on_output
        self._channel = _RESULTS
        self._values = self._read()

    def __iter__(self) -> Iterator[Value]:
        return self

    def __next__(self) -> Value:
        return next(self._values)

    def close(self) -> None:
        """Stop here."""
        self._values.close()
        self._answer.close()

    def _read(self) -> Generator[Value, None, None]:
        with self._answer:
            for item in self._messages():
                if isinstance(item, zng.Control):
                    self._take(item)
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

    def _take(self, control: zng.Control) -> None:
        """A message on the side; those that are not known are passed over."""
        if control.encoding != _ZSON:
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
