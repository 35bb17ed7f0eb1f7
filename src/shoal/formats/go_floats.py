"""Go's float syntax, which decides what is a number in CSV and zeek. A number too large for a float64 is not a number.

Unlike Python, Go takes `0x1p-2`, and neither blanks around a number nor digits of other scripts.
"""

from __future__ import annotations

import math
import re

_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIGITS = r"[0-9](?:_?[0-9])*"
_HEX = r"[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_GROUPED = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEXADECIMAL = re.compile(rf"[+-]?0[xX]_?(?:{_HEX}(?:\.(?:{_HEX})?)?|\.{_HEX})[pP][+-]?{_DIGITS}")
_INFINITY = {sign + word for sign in ("", "+", "-") for word in ("inf", "infinity")}

FIRST_CHARACTERS = frozenset("+-.0123456789iInN")
"""What a number begins with; a quick test for what is none."""


def parse_go_float(text: str) -> float | None:
    """The float64 that `text` spells, or None."""
    if _PLAIN.fullmatch(text) or ("_" in text and _GROUPED.fullmatch(text)):
        number = float(text)
        return None if math.isinf(number) else number
    if _HEXADECIMAL.fullmatch(text):
        return _parse_hexadecimal(text.replace("_", ""))
    word = text.lower() if text.isascii() else ""
    if word in _INFINITY:
        return -math.inf if word.startswith("-") else math.inf
    return math.nan if word == "nan" else None


_EXACT_BELOW = 2.0**53


def parse_cell(text: str) -> float | None:
    """The number in a cell, or None; also None for digits that a float would change: `007`, `9007199254740993`."""
    number = parse_go_float(text)
    if number is None or not (text[0] in "+-0" or abs(number) >= _EXACT_BELOW):
        return number
    digits = text.lstrip("+-")
    if not digits.isdigit() or digits == "0":
        return number
    return None if digits[0] == "0" or int(text) != number else number


def _parse_hexadecimal(text: str) -> float | None:
    try:
        return float.fromhex(text)
    except (OverflowError, ValueError):
        return None
