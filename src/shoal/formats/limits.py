"""What a value may take, and how an input is refused that would take more.

The memory of a value is estimated from its text, or from its bytes, before it is decoded: decoded, a list of small
numbers is fifty times as large as its text. Only long values are looked at. A megabyte of anything is small enough.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.api.options import MIB, ReadOptions
from shoal.errors import InvalidInput
from shoal.model import types as t

LIGHT = 1 * MIB
"""Up to this size a value is decoded without a look at what is in it."""
_ITEM, _FIELD, _CONTAINER = 150, 250, 150
"""Bytes of memory, about, that an element, a field of a record and a list take beside their text."""
_TYPE_PART = 512
"""Bytes of memory, about, for each part of a type."""
_TEXT_COPIES = 4
"""How many times the text of a long string is in memory while it is read and written."""
_BINARY_GROWTH = 32
"""How much larger a list may be than its binary form: an element takes a byte or two of that."""
_CHUNK_GROWTH = 64
"""How much larger a chunk of text may be when it is decoded."""
RAISE_MEMORY = "(raise -read.memory, or -limit.memory of a service)"
"""The way out."""

Costs = Mapping[str, int]
"""What the characters that part a text stand for, in bytes of memory."""
NO_PARTS: Costs = {}
JSON_PARTS: Costs = {",": _ITEM, ":": _FIELD, "[": _CONTAINER, "{": _CONTAINER}


UNLIMITED = ReadOptions(max_value_size=1 << 62, max_memory=1 << 62)
"""For text that was checked before."""


class LimitExceeded(InvalidInput):
    """Input that is not malformed, as far as is known: a limit is why it is not read on."""


def at(where: str, error: InvalidInput) -> InvalidInput:
    """An error with a position in front."""
    kind = LimitExceeded if isinstance(error, LimitExceeded) else InvalidInput
    return kind(f"{where}: {error}")


def cell_costs(*separators: str) -> Costs:
    """The costs of text in which these separate one cell from the next."""
    return dict.fromkeys(separators, _ITEM)


def check_text(text: str | bytes, options: ReadOptions, where: str, costs: Costs = JSON_PARTS) -> None:
    """Refuse the text of one value, whole or not, that is too long or would take too much memory."""
    size = len(text)
    _check_size(size, options, where)
    if size > LIGHT:
        parts = sum(_count(text, mark) * cost for mark, cost in costs.items())
        check_memory(_TEXT_COPIES * size + parts, options, where)


def check_lines(size: int, lines: int, options: ReadOptions, where: str) -> None:
    """Refuse a value of this size, whose lines are held one by one, in the same way."""
    _check_size(size, options, where)
    check_memory(_TEXT_COPIES * size + _ITEM * lines, options, where)


def _check_size(size: int, options: ReadOptions, where: str) -> None:
    if size > options.max_value_size:
        raise LimitExceeded(f"{where}: longer than {options.max_value_size} bytes (raise -zng.readmax)")


def _count(text: str | bytes, mark: str) -> int:
    return text.count(mark) if isinstance(text, str) else text.count(mark.encode())


def check_bytes(typ: t.Type, size: int, options: ReadOptions) -> None:
    """Refuse a value in its binary form that would take too much memory."""
    if size > LIGHT:
        check_memory(size * (_BINARY_GROWTH if _has_lists(typ) else _TEXT_COPIES), options)


_HAS_LISTS: t.MemoKey[bool] = t.MemoKey("has lists")


def _has_lists(typ: t.Type) -> bool:
    answer = typ.memo.get(_HAS_LISTS)
    if answer is None:
        is_list = isinstance(typ, (t.Array, t.Set, t.Map))
        answer = typ.memo[_HAS_LISTS] = is_list or any(map(_has_lists, typ.children()))
    return answer


def check_cells(count: int, options: ReadOptions) -> None:
    """Refuse a value with this many elements."""
    check_memory(count * _ITEM, options)


def check_types(parts: int, options: ReadOptions) -> None:
    """Refuse a stream that has defined types with this number of parts."""
    if parts * _TYPE_PART > value_memory(options):
        raise too_much(f"types of {parts} parts", options)


def check_fields(count: int, where: str) -> None:
    """Refuse a record with too many fields before it is built."""
    if count >= t.MAX_SIZE:
        raise LimitExceeded(f"{where}: {count} fields, more than the {t.MAX_SIZE} parts that a type may have")


def check_memory(estimate: int, options: ReadOptions, where: str = "") -> None:
    """Refuse a value that is going to take about this many bytes."""
    if estimate > value_memory(options):
        raise too_much(f"{where}: one value" if where else "one value", options)


def chunk_size(options: ReadOptions, largest: int) -> int:
    """How many bytes a reader of columns decodes at a time, on each of its threads."""
    return min(largest, max(LIGHT, options.max_memory // (_CHUNK_GROWTH * options.threads)))


def value_memory(options: ReadOptions) -> int:
    """How many bytes one value may take, or whatever else is read at once."""
    return options.max_memory // 2


def too_much(what: str, options: ReadOptions) -> LimitExceeded:
    """The refusal of something that would take too much memory."""
    limit = f"{value_memory(options) / MIB:g} MiB of memory, half of the limit"
    return LimitExceeded(f"{what} would take more than {limit} {RAISE_MEMORY}")
