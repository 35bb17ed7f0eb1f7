"""Functions over strings. Arguments are taken out of names and unions first."""

from __future__ import annotations

from collections.abc import Callable

from shoal.engines.interp.functions.failures import failure, first_non_string
from shoal.engines.stopping import NEVER, Stop
from shoal.model import types as t
from shoal.model.extent import MAX_TEXT, TOO_LONG
from shoal.model.values import NULL, Value, int64, string, text_error

STRINGS = t.array(t.STRING)
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def lower(value: Value) -> Value:
    """`lower("Zed")` is `"zed"`. A letter stays one letter."""
    return _mapped("lower", value, _lower)


def upper(value: Value) -> Value:
    """`upper("zed")` is `"ZED"`. A letter stays one letter: `ß` is its own capital."""
    return _mapped("upper", value, _upper)


def trim(value: Value) -> Value:
    """`trim(" a b ")` is `"a b"`."""
    return _mapped("trim", value, lambda text: text.strip(SPACE))


def rune_len(value: Value) -> Value:
    """How many characters: `rune_len("😎")` is 1."""
    value = value.under()
    if value.type is not t.STRING:
        return failure("rune_len: string arg required", value)
    return int64(len(value.data or ""))


def replace(text: Value, old: Value, new: Value) -> Value:
    """`replace("oink oink", "oink", "moo")` is `"moo moo"`."""
    text, old, new = text.under(), old.under(), new.under()
    wrong = first_non_string(text, old, new)
    if wrong is not None:
        return failure("replace: string arg required", wrong)
    if text.data is None:
        return NULL
    if old.data is None or new.data is None:
        return text_error("replace: an input arg is null")
    count = text.data.count(old.data)
    if len(text.data) + count * (len(new.data) - len(old.data)) > MAX_TEXT:
        return TOO_LONG
    return string(text.data.replace(old.data, new.data))


def split(text: Value, separator: Value) -> Value:
    """`split("a,b", ",")` is `["a","b"]`; an empty separator splits between all characters."""
    text, separator = text.under(), separator.under()
    wrong = first_non_string(text, separator)
    if wrong is not None:
        return failure("split: string arg required", wrong)
    if text.data is None or separator.data is None:
        return Value(STRINGS, None)
    pieces = text.data.split(separator.data) if separator.data else text.data
    return Value(STRINGS, tuple(pieces) or None)


def join(pieces: Value, separator: Value | None = None) -> Value:
    """`join(["a","b"], ",")` is `"a,b"`; nulls count as empty."""
    pieces = pieces.under()
    elem = t.inner_of(pieces.type)
    if elem is None or elem.under is not t.STRING or not isinstance(pieces.type, t.Array):
        return failure("join: array of string arg required", pieces)
    between = ""
    if separator is not None:
        separator = separator.under()
        if separator.type is not t.STRING:
            return failure("join: separator must be string", separator)
        between = separator.data or ""
    texts = [piece or "" for piece in pieces.data or ()]
    if sum(map(len, texts)) + len(between) * len(texts) > MAX_TEXT:
        return TOO_LONG
    return string(between.join(texts))


def levenshtein(a: Value, b: Value, stop: Stop = NEVER) -> Value:
    """The fewest changes of one character from one string to the other: `levenshtein("kitten", "sitting")` is 3."""
    a, b = a.under(), b.under()
    wrong = first_non_string(a, b)
    if wrong is not None:
        return failure("levenshtein: string args required", wrong)
    return int64(_distance(a.data or "", b.data or "", stop))


def _mapped(name: str, value: Value, change: Callable[[str], str]) -> Value:
    value = value.under()
    if value.type is not t.STRING:
        return failure(f"{name}: string arg required", value)
    return value if value.data is None else string(change(value.data))


def _lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join([c.lower()[0] for c in text])


def _upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join([_upper_letter(c) for c in text])


def _upper_letter(c: str) -> str:
    upper = c.upper()
    if len(upper) > 1:
        upper = c.title()
    return upper if len(upper) == 1 else c


def _distance(a: str, b: str, stop: Stop) -> int:
    """Myers' bit-parallel algorithm: a column of the table is a pair of integers, so it takes len(b) steps."""
    if not a:
        return len(b)
    places: dict[str, int] = {}
    for i, c in enumerate(a):
        places[c] = places.get(c, 0) | 1 << i
    top, mask = 1 << len(a) - 1, (1 << len(a)) - 1
    up, down, distance = mask, 0, len(a)
    for c in stop.checked(b):
        same = places.get(c, 0)
        vertical = same | down
        diagonal = (((same & up) + up) ^ up) | same
        right, left = down | ~(diagonal | up) & mask, up & diagonal
        distance += bool(right & top) - bool(left & top)
        right, left = (right << 1 | 1) & mask, left << 1 & mask
        up, down = left | ~(vertical | right) & mask, right & vertical
    return distance
