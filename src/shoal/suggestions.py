"""Hints for words that are nearly right."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHORTEST = 4
"""Letters of a word from which on another one can look like it: `p1` and `p2` do not."""
_CLOSENESS = 0.7


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The name that a word was most likely meant to be, as a question in brackets; nothing if there is none."""
    close = get_close_matches(word, names, 1, _CLOSENESS) if len(word) >= _SHORTEST else []
    return f" (did you mean {close[0]}?)" if close and close[0] != word else ""
