"""Room for nested programs. Brackets nest 100 deep and functions call each other 10,000 deep at most;
Python's own limit of 1,000 frames is less than that needs, and its frames cost heap, not stack."""

from __future__ import annotations

import sys

_FRAMES = 10_000


def allow_frames(count: int = _FRAMES) -> None:
    """See that this many Python frames may be open at once."""
    if sys.getrecursionlimit() < count:
        sys.setrecursionlimit(count)
