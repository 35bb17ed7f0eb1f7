"""Structs of Thrift in their compact form, which is what footers of Parquet files are.

Each function takes where something begins, and returns it with the place after it. A footer has hundreds of fields, and
a folder thousands of footers, so the frequent kinds are read in place. What is wrong raises IndexError or ValueError.
"""

from __future__ import annotations

from typing import Any

_DEEPEST = 40
"""Structs and lists within each other."""
_TRUE, _FALSE, _BYTE, _INT16, _INT64 = 1, 2, 3, 4, 6
_EIGHT_BYTES, _BINARY, _LIST, _SET, _MAP, _STRUCT = 7, 8, 9, 10, 11, 12
_LONG = 15
"""Stands for the length of a list that follows."""
_LONGEST_NUMBER = 10
_MORE = 0x80
"""The bit of a byte of a number that says that it goes on."""


def read_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their numbers."""
    if depth > _DEEPEST:
        raise ValueError("too deep")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        kind = head & 15
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        if _INT16 <= kind <= _INT64:
            byte = data[at]
            if byte < _MORE:
                fields[number], at = (byte >> 1) ^ -(byte & 1), at + 1
            else:
                fields[number], at = _signed(data, at)
        elif kind == _BINARY:
            fields[number], at = _binary(data, at)
        elif kind <= _FALSE:
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == _STRUCT:
        return read_struct(data, at, depth + 1)
    if _INT16 <= kind <= _INT64:
        return _signed(data, at)
    if kind == _BINARY:
        return _binary(data, at)
    if kind in (_LIST, _SET):
        return _list(data, at, depth)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _EIGHT_BYTES:
        return None, at + 8
    if kind == _MAP:
        return None, _after_map(data, at, depth)
    raise ValueError("unknown kind of field")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    size, kind, at = data[at] >> 4, data[at] & 15, at + 1
    if size == _LONG:
        size, at = _unsigned(data, at)
    _check_size(data, at, size)
    if depth > _DEEPEST:
        raise ValueError("too deep")
    items = []
    for _ in range(size):
        item, at = _value(data, at, kind, depth + 1)
        items.append(item)
    return items, at


def _after_map(data: bytes, at: int, depth: int) -> int:
    """No map is of interest."""
    size, at = _unsigned(data, at)
    _check_size(data, at, size)
    if not size:
        return at
    if depth > _DEEPEST:
        raise ValueError("too deep")
    kinds, at = data[at], at + 1
    for _ in range(size):
        for kind in (kinds >> 4, kinds & 15):
            _, at = _value(data, at, kind, depth + 1)
    return at


def _binary(data: bytes, at: int) -> tuple[bytes, int]:
    size = data[at]
    if size < _MORE:
        at += 1
    else:
        size, at = _unsigned(data, at)
    _check_size(data, at, size)
    return data[at : at + size], at + size


def _check_size(data: bytes, at: int, size: int) -> None:
    """ValueError if this many items, of which each takes a byte or more, reach beyond the end."""
    if size > len(data) - at:
        raise ValueError("longer than the footer")


def _signed(data: bytes, at: int) -> tuple[int, int]:
    number, at = _unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for end in range(at, at + _LONGEST_NUMBER):
        byte = data[end]
        number |= (byte & 0x7F) << shift
        if byte < _MORE:
            return number, end + 1
        shift += 7
    raise ValueError("a number is too long")
