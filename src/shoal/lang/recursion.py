"""Room for nested programs. Brackets nest 100 deep and functions call each other 10,000 deep at most;
Python's own limit of 1,000 frames is less than that needs, and its frames cost heap, not stack."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FRAMES = 150_000
_lock = threading.Lock()
_users = 0
_usual = 0


@contextmanager
def deep_frames() -> Iterator[None]:
    """Let many Python frames be open at once, until the last user of this is done."""
    global _users, _usual
    with _lock:
        if _users == 0:
            _usual = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual, _FRAMES))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and sys.getrecursionlimit() == max(_usual, _FRAMES):
                sys.setrecursionlimit(_usual)
