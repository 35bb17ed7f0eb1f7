"""Hints for words that are nearly right."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_SHORTEST, _LONGEST = 4, 64
"""Letters of a word that can look like another one: `p1` and `p2` do not, and long texts take long to compare."""
_CLOSENESS = 0.7
_MOST_NAMES = 2000


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The name that a word was most likely meant to be, as a question in brackets; nothing if there is none."""
    name = closest(word, names)
    return "" if name is None else f" (did you mean {name}?)"


def closest(word: str, names: Iterable[str]) -> str | None:
    """The name that a word was most likely meant to be."""
    if not _SHORTEST <= len(word) <= _LONGEST:
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - most words are right

    folded = {name.lower(): name for name in islice(names, _MOST_NAMES) if len(name) <= _LONGEST and name != word}
    close = get_close_matches(word.lower(), folded, 1, _CLOSENESS)
    return folded[close[0]] if close else None
