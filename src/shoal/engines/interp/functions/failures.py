"""Errors that functions return: always values, never exceptions."""

from __future__ import annotations

from shoal.model import types as t
from shoal.model.cast import failed_cast
from shoal.model.values import Value, text_error

BAD_TYPE_VALUE = text_error("bad type value encoding")
"""What a null of type `type` gives where a type is needed."""


def failure(message: str, on: Value) -> Value:
    """`error({message,on})`, or the bare message where the value nests too deep to be put into anything."""
    return failed_cast(message, on)


def first_non_string(*values: Value) -> Value | None:
    """The first of the values that is not a string, under names or not; a null string is one."""
    return next((v for v in values if v.type.under is not t.STRING), None)


_SHORT_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES = {**_SHORT_ESCAPES, '"': '\\"', "\\": "\\\\"}


def quoted(text: str) -> str:
    r"""A text as messages quote it: `"a\x01é"`."""
    return f'"{"".join(_ESCAPES.get(c) or (c if c.isprintable() else _code(c)) for c in text)}"'


def _code(c: str) -> str:
    code = ord(c)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
