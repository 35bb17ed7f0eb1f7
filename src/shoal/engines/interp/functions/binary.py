"""Functions between bytes and their texts: base 64, hexadecimal digits, KSUIDs."""

from __future__ import annotations

import binascii
import re

from shoal import ids
from shoal.engines.interp.functions.failures import failure
from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.values import Value, string, text_error

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
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
    if not _BASE64.fullmatch(text):
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
    if not _HEX.fullmatch(value.data):
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
