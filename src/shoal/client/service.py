"""What is asked of a service, as values both ways, and asked again where that is safe.

Reading is. So is changing, because each change has a key that the service knows it by: the same key is sent again, and
it happens once.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from typing import Any, TypeVar

from shoal.api.requests import Op
from shoal.client.address import make_path, make_query
from shoal.client.transport import Access, Answer, Lost, Request, Transport, Unreached
from shoal.client.uploads import Unreadable, Upload
from shoal.errors import InvalidInput, OutcomeUnknown, StorageFailure, TooMany
from shoal.formats.zng import stream as zng
from shoal.ids import new, parse, to_text
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.storage.backoff import backoff

MEDIA_TYPE = "application/x-zng"
_MEDIA_TYPES = ("", MEDIA_TYPE, "application/octet-stream")
"""Media types of ZNG. A Zed service calls some answers bytes."""
_T = TypeVar("_T")
_TRIES = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_UNDECIDED = (StorageFailure, TooMany)
"""Errors of a repeated request that do not say whether the first one was carried out."""


@frozen
class Call:
    """An operation of the service."""

    method: str
    names: tuple[str, ...]
    """The segments of the path."""
    choices: Mapping[str, str | None] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    value: Value | None = None
    """The body, if it is a value."""
    upload: Upload | None = None
    """The body, if it is data."""
    key: str | None = None
    """What a change is known by."""
    is_safe: bool = False
    """Whether it may be asked twice without a key."""
    timeout: float | None = None

    def request(self) -> Request:
        """What to send; each time that it is sent, data is read from its beginning."""
        headers = {"Accept": MEDIA_TYPE, **self.headers}
        body: Any = None
        if self.value is not None:
            headers["Content-Type"] = MEDIA_TYPE
            body = encode(self.value)
        elif self.upload is not None:
            headers |= self.upload.headers()
            body = self.upload.open()
        if self.key is not None:
            headers["Idempotency-Key"] = self.key
        return Request(self.method, make_path(*self.names) + make_query(self.choices), headers, body, self.timeout)

    @property
    def can_repeat(self) -> bool:
        """Whether it may be sent once more, now."""
        return (self.is_safe or self.key is not None) and (self.upload is None or self.upload.can_repeat)


class Service:
    """A service, by what can be asked of it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._transport = Transport(access)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.access.url

    def read_all(self, call: Call) -> list[Value]:
        """All the values of an answer that is small."""
        return self._try(call, _take_all)

    def change(self, call: Call) -> Value | None:
        """Carry out a change once; the value that the service answers with, if any."""
        return next(iter(self.read_all(call)), None)

    def send(self, call: Call) -> Answer:
        """The answer to a call, whose body is yet to be read."""
        return self._try(call, _take_answer)

    def _try(self, call: Call, take: Callable[[Answer], _T]) -> _T:
        """What is taken from an answer, asked for a few times where it is lost; raises what the service does.

        Once an answer was lost, a service that cannot be reached or fails does not say that nothing happened.
        """
        unsettled: OutcomeUnknown | None = None
        for pause in (*islice(backoff(_FIRST_PAUSE, _LONGEST_PAUSE), _TRIES - 1), None):
            try:
                answer = self._transport.send(call.request())
                if not answer.is_error:
                    return take(answer)
            except Unreadable as e:
                raise e.cause from None
            except Unreached as e:
                if pause is None or not self._transport.has_answered or not call.can_repeat:
                    raise unsettled or e from None
            except Lost as e:
                unsettled = _unsettled(call, e) or unsettled
                if pause is None or not call.can_repeat:
                    raise unsettled or e from None
            else:
                wait, error = answer.retry_after, answer.error()
                is_open = wait is not None or isinstance(error, OutcomeUnknown)
                if pause is None or not is_open or not call.can_repeat:
                    raise unsettled if unsettled is not None and isinstance(error, _UNDECIDED) else error
                pause = max(pause, min(wait or 0.0, _LONGEST_PAUSE))
            time.sleep(pause)
        raise AssertionError("the last try neither returned nor raised")


def make_key(op: Op = None) -> str:
    """The key of a change, made once however often it is sent: the id of the operation, if it has one."""
    ident = op() if callable(op) else op
    return to_text(new() if ident is None else parse(ident))


def encode(value: Value) -> bytes:
    """A value as ZNG."""
    out = io.BytesIO()
    writer = zng.Writer(out)
    writer.write(value)
    writer.close()
    return out.getvalue()


def decode(answer: Answer) -> Iterator[Value]:
    """The values of an answer, which is closed at their end."""
    with answer:
        require_zng(answer)
        try:
            yield from zng.read(answer)
        except InvalidInput as e:
            raise unreadable(answer, e) from None


def unreadable(answer: Answer, error: InvalidInput) -> StorageFailure:
    """The error for an answer that is not valid ZNG."""
    return StorageFailure(f"{answer.url}: the answer cannot be read: {error}")


def _take_all(answer: Answer) -> list[Value]:
    return list(decode(answer))


def _take_answer(answer: Answer) -> Answer:
    return answer


def require_zng(answer: Answer) -> None:
    """StorageFailure if an answer is not one that a service would give."""
    kind = answer.header("Content-Type").partition(";")[0].strip()
    if kind not in _MEDIA_TYPES:
        answer.close()
        raise StorageFailure(f"{answer.url}: not the service of a lake (it answers with {kind})")


def _unsettled(call: Call, lost: Lost) -> OutcomeUnknown | None:
    """The error for a change whose answer is lost, so that it may have happened; None if its body did not get there."""
    if call.key is None or (call.upload is not None and not call.upload.is_sent):
        return None
    text = f"{lost}; it may have happened (see the log, or do it again with the id {call.key}: it happens once)"
    return OutcomeUnknown(text, call.key)
