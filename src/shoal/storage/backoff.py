"""Exponential backoff with full jitter: how long a client waits before it tries again."""

from __future__ import annotations

import random
from collections.abc import Iterator

_FIRST = 0.002
_LONGEST = 0.5


def backoff(first: float = _FIRST, longest: float = _LONGEST) -> Iterator[float]:
    """Seconds to wait before each further attempt, without end.

    The upper bound doubles from `first` to `longest`. Each wait is a random part of it, so that clients that collided
    once do not collide again.
    """
    bound = first
    while True:
        yield random.uniform(0, bound)
        bound = min(bound * 2, longest)
