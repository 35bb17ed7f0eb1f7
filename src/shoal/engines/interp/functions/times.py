"""Times: now, buckets, and text by `strftime`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from shoal.engines.interp.functions.arguments import failure, to_int, wrap
from shoal.errors import InvalidInput
from shoal.lang.regexps import cached_if_short
from shoal.model import types as t
from shoal.model.extent import MAX_BYTES, check_size
from shoal.model.literals import SECOND
from shoal.model.values import Value, string


def now() -> Value:
    """The time it is."""
    return Value(t.TIME, time.time_ns())


def bucket(value: Value, step: Value) -> Value:
    """A time or duration cut to a multiple of a step: `bucket(2020-05-26T15:27:47Z, 1h)` is `2020-05-26T15:00:00Z`."""
    return _bucket("", value, step)


def every(value: Value, step: Value) -> Value:
    """`bucket`, for the time of the current value."""
    return _bucket("every", value, step)


def _bucket(name: str, value: Value, step: Value) -> Value:
    """A step that is not a duration counts seconds, also a duration under a name. Cutting goes towards zero."""
    if value.data is None or step.data is None:
        return Value(t.TIME, None)
    size = step.data if step.type is t.DURATION else to_int(step)
    if size is None:
        return failure(f"{name}: second argument is not a duration or number", step)
    if step.type is not t.DURATION:
        size = wrap(size * SECOND, t.DURATION)
    if value.type.under is t.DURATION:
        return Value(t.DURATION, _cut(value.data, size))
    instant = to_int(value)
    if instant is None:
        return failure(f"{name}: first argument is not a time", value)
    return Value(t.TIME, _cut(instant, size))


def _cut(number: int, size: int) -> int:
    if size == 0:
        return number
    cut = abs(number) // abs(size) * abs(size)
    return cut if number >= 0 else -cut


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def _day(d: datetime) -> str:
    return _DAYS[d.weekday()]


def _month(d: datetime) -> str:
    return _MONTHS[d.month - 1]


def _year_day(d: datetime) -> int:
    return d.timetuple().tm_yday


def _half_hours(d: datetime) -> int:
    return d.hour % 12 or 12


def _half(d: datetime) -> str:
    return "AM" if d.hour < 12 else "PM"


def _clock(d: datetime) -> str:
    return f"{d.hour:02}:{d.minute:02}:{d.second:02}"


def _us_date(d: datetime) -> str:
    return f"{d.month:02}/{d.day:02}/{d.year % 100:02}"


_DIRECTIVES: dict[str, Callable[[datetime], str]] = {
    "A": _day,
    "a": lambda d: _day(d)[:3],
    "B": _month,
    "b": lambda d: _month(d)[:3],
    "C": lambda d: f"{d.year // 100:02}",
    "c": lambda d: f"{_day(d)[:3]} {_month(d)[:3]} {d.day:2} {_clock(d)} {d.year:04}",
    "D": _us_date,
    "d": lambda d: f"{d.day:02}",
    "e": lambda d: f"{d.day:2}",
    "F": lambda d: f"{d.year:04}-{d.month:02}-{d.day:02}",
    "H": lambda d: f"{d.hour:02}",
    "h": lambda d: _month(d)[:3],
    "I": lambda d: f"{_half_hours(d):02}",
    "j": lambda d: f"{_year_day(d):03}",
    "k": lambda d: f"{d.hour:2}",
    "l": lambda d: f"{_half_hours(d):2}",
    "M": lambda d: f"{d.minute:02}",
    "m": lambda d: f"{d.month:02}",
    "n": lambda d: "\n",
    "p": _half,
    "R": lambda d: f"{d.hour:02}:{d.minute:02}",
    "r": lambda d: f"{_half_hours(d):02}:{d.minute:02}:{d.second:02} {_half(d)}",
    "S": lambda d: f"{d.second:02}",
    "T": _clock,
    "t": lambda d: "\t",
    "U": lambda d: f"{(_year_day(d) + 6 - d.isoweekday() % 7) // 7:02}",
    "u": lambda d: str(d.isoweekday()),
    "V": lambda d: f"{d.isocalendar().week:02}",
    "v": lambda d: f"{d.day:2}-{_month(d)[:3]}-{d.year:04}",
    "W": lambda d: f"{(_year_day(d) + 6 - d.weekday()) // 7:02}",
    "w": lambda d: str(d.isoweekday() % 7),
    "X": _clock,
    "x": _us_date,
    "Y": lambda d: f"{d.year:04}",
    "y": lambda d: f"{d.year % 100:02}",
    "Z": lambda d: "UTC",
    "z": lambda d: "+0000",
    "%": lambda d: "%",
}

_PIECE = re.compile(r"%(.)?|[^%]+", re.DOTALL)
_Piece = str | Callable[[datetime], str]


_LONGEST_DIRECTIVE = 32


def strftime(form: Value, when: Value, *, limit: int = MAX_BYTES) -> Value:
    """`strftime("%Y-%a", 2024-07-30T06:15:01Z)` is `"2024-Tue"`."""
    if form.type.under is not t.STRING:
        return failure("strftime: string value required for format arg", form)
    if when.type.under is not t.TIME:
        return failure("strftime: time value required for time arg", when)
    check_size(_LONGEST_DIRECTIVE * len(form.data or ""), limit)
    try:
        pieces = _compile(form.data or "")
    except InvalidInput as e:
        return failure(f"strftime: failed to compile format: {e}", form)
    if when.data is None:
        return Value(t.STRING, None)
    moment = _EPOCH + timedelta(seconds=when.data // SECOND)
    return string("".join(piece if isinstance(piece, str) else piece(moment) for piece in pieces))


@cached_if_short(256)
def _compile(form: str) -> tuple[_Piece, ...]:
    return tuple(_piece(m) for m in _PIECE.finditer(form))


def _piece(m: re.Match[str]) -> _Piece:
    if not m.group().startswith("%"):
        return m.group()
    letter: str | None = m[1]
    if letter is None:
        raise InvalidInput("stray % at the end of pattern")
    if letter not in _DIRECTIVES:
        byte = chr(letter.encode()[0])
        raise InvalidInput(f"pattern compilation failed: lookup failed: '%{byte}' was not found in specification set")
    return _DIRECTIVES[letter]
