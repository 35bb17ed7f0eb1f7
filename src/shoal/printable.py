"""Text for people: which characters a terminal would obey instead of showing, and how they are shown.

They are control characters (C0, DEL and C1), separators of lines and paragraphs, marks that turn the direction of
writing, and halves of surrogate pairs. Names may not contain them. What is stored of authors and messages keeps them;
`printable` escapes them in errors, in the output of commands, and in everything else that quotes them.
"""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTROL_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def has_control(text: str) -> bool:
    """Whether a text contains a character that a terminal would obey."""
    return _CONTROL.search(text) is not None


def printable(text: str, *, lines: bool = False) -> str:
    r"""A text with control characters escaped as in Python; with `lines`, line ends and tabs stay.

    >>> printable("a\x1b[2Jb\u202ec\n")
    'a\\x1b[2Jb\\u202ec\\n'
    """
    pattern = _CONTROL_IN_LINES if lines else _CONTROL
    return pattern.sub(_escape, text) if pattern.search(text) else text


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "backslashreplace").decode()
