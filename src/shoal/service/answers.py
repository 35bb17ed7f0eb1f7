"""What handlers return: None for an empty answer, one value, several values, text, or an answer that is streamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from shoal.model.values import Value
from shoal.service.streaming import Streaming

_FEW = 100


@dataclass(frozen=True, slots=True)
class Text:
    """Text or bytes with a media type of its own."""

    content: str | bytes
    media_type: str = "text/plain; charset=utf-8"


class EventStream:
    """Events, for as long as the client listens."""


Answer: TypeAlias = "Value | list[Value] | Iterator[Value] | Text | Streaming | EventStream | None"


def gathered(values: Iterator[Value]) -> list[Value] | Iterator[Value]:
    """The values as a list if they are few: a list is sent at once, a stream needs a thread and a queue."""
    first = list(islice(values, _FEW + 1))
    return first if len(first) <= _FEW else chain(first, values)
