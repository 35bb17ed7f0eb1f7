"""What handlers give back. None is an answer without a body, a Value is one value, an iterator a stream of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from shoal.model.values import Value
from shoal.service.streaming import Make

_FEW = 100


@dataclass(frozen=True, slots=True)
class Text:
    """Some text, or bytes, of a media type of its own."""

    content: str | bytes
    media_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Streaming:
    """An answer that a thread writes while it is sent."""

    make: Make
    media_type: str
    stop: Callable[[], None] = lambda: None
    """Called when the client has gone away. What only writes ends anyway, when nobody takes its bytes."""
    end: Callable[[], None] = lambda: None
    """Called at last, in any case."""


class EventStream:
    """Events, for as long as the client listens."""


Answer: TypeAlias = "Value | list[Value] | Iterator[Value] | Text | Streaming | EventStream | None"


def gathered(values: Iterator[Value]) -> list[Value] | Iterator[Value]:
    """The values as a list if they are few: that is answered at once, and a stream takes a thread and a queue."""
    first = list(islice(values, _FEW + 1))
    return first if len(first) <= _FEW else chain(first, values)
