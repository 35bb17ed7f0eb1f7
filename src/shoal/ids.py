"""KSUIDs: 20 bytes that sort by the second of their creation, 27 letters and digits as text.

Nothing may rely on that order, because clocks differ.
"""

from __future__ import annotations

import time
from functools import lru_cache
from os import urandom
from typing import NewType

from shoal.errors import InvalidInput

__all__ = ["Id", "created_at", "new", "parse", "to_text"]

Id = NewType("Id", bytes)

SIZE = 20
TEXT_SIZE = 27
_EPOCH = 1_400_000_000
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VALUES = {c: i for i, c in enumerate(_DIGITS)}


def __dir__() -> list[str]:
    return __all__


def new(now: float | None = None) -> Id:
    """A new identifier: four bytes of seconds and sixteen random bytes."""
    seconds = int(time.time() if now is None else now) - _EPOCH
    return Id((seconds % 2**32).to_bytes(4, "big") + urandom(16))


def derived(*texts: str) -> Id:
    """The identifier that some texts always give, for an operation that several processes may try.

    Its time is the latest one, so that it is younger than any vacuum.
    """
    import hashlib  # noqa: PLC0415 - it loads a library that few commands need

    joined = "".join(f"{len(text)} {text} " for text in texts)
    return Id(b"\xff" * 4 + hashlib.sha256(joined.encode()).digest()[:16])


def created_at(ident: bytes) -> int:
    """The creation time in the identifier, in seconds since 1970."""
    return int.from_bytes(ident[:4], "big") + _EPOCH


@lru_cache(4096)  # the same few ids recur
def to_text(ident: bytes) -> str:
    """27 characters of base 62."""
    if len(ident) != SIZE:
        raise InvalidInput(f"an id has {SIZE} bytes, not {len(ident)}")
    number = int.from_bytes(ident, "big")
    out = []
    for _ in range(TEXT_SIZE):
        number, digit = divmod(number, 62)
        out.append(_DIGITS[digit])
    return "".join(reversed(out))


def parse(text: str) -> Id:
    """The identifier in 27 characters of base 62, or in `0x` and 40 hexadecimal digits."""
    try:
        if text.startswith("0x") and len(text) == 2 + 2 * SIZE:
            return Id(bytes.fromhex(text[2:]))
        if len(text) != TEXT_SIZE:
            raise ValueError
        number = 0
        for c in text:
            number = number * 62 + _VALUES[c]
        return Id(number.to_bytes(SIZE, "big"))
    except (ValueError, KeyError, OverflowError):
        raise InvalidInput(f"invalid id: {text!r} (27 letters and digits, or 0x and 40 hexadecimal digits)") from None
