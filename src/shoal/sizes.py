"""Sizes in bytes, as people write them: `64MiB`, `1GB`, `500k`."""

from __future__ import annotations

_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "k": 2**10, "m": 2**20, "g": 2**30, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


def parse_size(text: str) -> int:
    """The number of bytes in a text such as `500MiB` or `1GB`; ValueError if it is none."""
    digits = len(text) - len(text.lstrip("0123456789."))
    unit = text[digits:].strip().lower()
    if not digits or unit not in _UNITS:
        raise ValueError(text)
    return int(float(text[:digits]) * _UNITS[unit])
