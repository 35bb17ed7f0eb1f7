"""Strings, and bytes as text: base64, hex, KSUIDs."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable

from shoal import ids
from shoal.engines.interp.functions.arguments import failure, first_non_string
from shoal.engines.stopping import NEVER, Stop
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.extent import MAX_BYTES, MAX_TEXT, TEXT_BYTES, TOO_LONG, check_size
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


def replace(text: Value, old: Value, new: Value, *, limit: int = MAX_BYTES) -> Value:
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
    length = len(text.data) + count * (len(new.data) - len(old.data))
    if length > MAX_TEXT:
        return TOO_LONG
    check_size(length, limit)
    return string(text.data.replace(old.data, new.data))


def split(text: Value, separator: Value, *, limit: int = MAX_BYTES) -> Value:
    """`split("a,b", ",")` is `["a","b"]`; an empty separator splits between all characters."""
    text, separator = text.under(), separator.under()
    wrong = first_non_string(text, separator)
    if wrong is not None:
        return failure("split: string arg required", wrong)
    if text.data is None or separator.data is None:
        return Value(STRINGS, None)
    count = text.data.count(separator.data) + 1 if separator.data else len(text.data)
    check_size(count * TEXT_BYTES + len(text.data), limit)
    pieces = text.data.split(separator.data) if separator.data else text.data
    return Value(STRINGS, tuple(pieces) or None)


def join(pieces: Value, separator: Value | None = None, *, limit: int = MAX_BYTES) -> Value:
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
    length = sum(map(len, texts)) + len(between) * len(texts)
    if length > MAX_TEXT:
        return TOO_LONG
    check_size(length, limit)
    return string(between.join(texts))


def levenshtein(a: Value, b: Value, *, stop: Stop = NEVER, limit: int = MAX_BYTES) -> Value:
    """The fewest changes of one character from one string to the other: `levenshtein("kitten", "sitting")` is 3."""
    a, b = a.under(), b.under()
    wrong = first_non_string(a, b)
    if wrong is not None:
        return failure("levenshtein: string args required", wrong)
    return int64(_distance(a.data or "", b.data or "", stop, limit))


def _mapped(name: str, value: Value, change: Callable[[str], str]) -> Value:
    value = value.under()
    if value.type is not t.STRING:
        return failure(f"{name}: string arg required", value)
    return value if value.data is None else string(change(value.data))


_CHUNK = 1 << 12
"""Characters that are mapped one by one at a time: each takes many times its size meanwhile."""


def _lower(text: str) -> str:
    return text.lower() if text.isascii() else _by_letter(text, lambda c: c.lower()[0])


def _upper(text: str) -> str:
    return text.upper() if text.isascii() else _by_letter(text, _upper_letter)


def _by_letter(text: str, change: Callable[[str], str]) -> str:
    chunks = (text[i : i + _CHUNK] for i in range(0, len(text), _CHUNK))
    return "".join(["".join(map(change, chunk)) for chunk in chunks])


def _upper_letter(c: str) -> str:
    upper = c.upper()
    if len(upper) > 1:
        upper = c.title()
    return upper if len(upper) == 1 else c


def _distance(a: str, b: str, stop: Stop, limit: int) -> int:
    """Myers' bit-parallel algorithm: a column of the table is a pair of integers, so it takes len(b) steps."""
    if not a:
        return len(b)
    check_size(len(set(a)) * len(a) // 8, limit)
    positions: dict[str, int] = {}
    for i, c in enumerate(a):
        positions[c] = positions.get(c, 0) | 1 << i
    top, mask = 1 << len(a) - 1, (1 << len(a)) - 1
    up, down, distance = mask, 0, len(a)
    for c in stop.checked(b):
        same = positions.get(c, 0)
        vertical = same | down
        diagonal = (((same & up) + up) ^ up) | same
        right, left = down | ~(diagonal | up) & mask, up & diagonal
        distance += bool(right & top) - bool(left & top)
        right, left = (right << 1 | 1) & mask, left << 1 & mask
        up, down = left | ~(vertical | right) & mask, right & vertical
    return distance


_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]*")
_LINE_ENDS = str.maketrans("", "", "\r\n")
_NOT_BYTES_OR_STRING = "base64: argument must a bytes or string type"
_LEAST_ID, _GREATEST_ID = ids.to_text(bytes(ids.SIZE)), ids.to_text(b"\xff" * ids.SIZE)


def base64(value: Value) -> Value:
    """Bytes to text and back: `base64(0x010203)` is `"AQID"`."""
    value = value.under()
    if value.type is t.BYTES:
        if value.data is None:
            return text_error("base64: illegal null argument")
        return string(binascii.b2a_base64(value.data, newline=False).decode())
    if value.type is not t.STRING:
        return failure(_NOT_BYTES_OR_STRING, value)
    if value.data is None:
        return Value(t.BYTES, None)
    text = value.data.translate(_LINE_ENDS)
    if len(text) % 4 or not _BASE64.fullmatch(text):
        return failure("base64: string argument is not base64", value)
    return Value(t.BYTES, binascii.a2b_base64(text))


def hexadecimal(value: Value) -> Value:
    """Bytes to text and back: `hex(0x0102ff)` is `"0102ff"`."""
    value = value.under()
    if value.type is t.BYTES:
        return text_error("hex: illegal null argument") if value.data is None else string(value.data.hex())
    if value.type is not t.STRING:
        return failure(_NOT_BYTES_OR_STRING, value)
    if value.data is None:
        return Value(t.BYTES, None)
    if len(value.data) % 2 or not _HEX.fullmatch(value.data):
        return failure("hex: string argument is not hexidecimal", value)
    return Value(t.BYTES, bytes.fromhex(value.data))


def ksuid(value: Value | None = None) -> Value:
    """A new KSUID, or one from bytes to text and back."""
    if value is None:
        return Value(t.BYTES, ids.new())
    under = value.type.under
    if under is t.BYTES:
        return _ksuid_text(value)
    if under is t.STRING:
        return _ksuid_bytes(value)
    return failure("ksuid: argument must a bytes or string type", value)


def _ksuid_text(value: Value) -> Value:
    if value.data is None:
        return text_error("ksuid: illegal null argument")
    if len(value.data) != ids.SIZE:
        return failure(f"ksuid: Valid KSUIDs are {ids.SIZE} bytes", value)
    return string(ids.to_text(value.data))


def _ksuid_bytes(value: Value) -> Value:
    text = value.data or ""
    if len(text.encode()) != ids.TEXT_SIZE:
        return failure(f"ksuid: Valid encoded KSUIDs are {ids.TEXT_SIZE} characters", value)
    try:
        return Value(t.BYTES, ids.parse(text))
    except InvalidInput:
        return failure(f"ksuid: Valid encoded KSUIDs are bounded by {_LEAST_ID} and {_GREATEST_ID}", value)
