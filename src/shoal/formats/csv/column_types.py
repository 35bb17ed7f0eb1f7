"""The types that columns get from their cells: the rule, for one cell after the other.

A column has a type if all of its cells that are not null are spelt like it, and keep what they say: whole numbers
int64, other numbers float64, then bool, date and time. Any other column is text, and so is one of numbers that a
number would change: those with a leading zero or a plus sign, and those with more digits than it can hold.
`guesses` does the same with whole columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.cast import cast_primitive, parse_any_time
from shoal.model.decimals import parse_exactly
from shoal.model.literals import DAY, parse_date, parse_time
from shoal.model.text import format_type
from shoal.model.values import Value, is_error
from shoal.model.zcode import Data

BLANKS = " \t"
"""What may stand around a cell that is not text."""

INT, FLOAT, LOWER, UPPER, TITLE, DATE, TIME = (1 << i for i in range(7))
"""What a cell may be. Bools are spelt in one way throughout a column."""
ANY = (1 << 7) - 1
_TYPES = (
    (INT, t.INT64),
    (FLOAT, t.FLOAT64),
    (LOWER, t.BOOL),
    (UPPER, t.BOOL),
    (TITLE, t.BOOL),
    (DATE, t.DATE),
    (TIME, t.TIME),
)
BOOLS: dict[str, tuple[int, bool]] = {
    "true": (LOWER, True),
    "false": (LOWER, False),
    "TRUE": (UPPER, True),
    "FALSE": (UPPER, False),
    "True": (TITLE, True),
    "False": (TITLE, False),
}

WHOLE_PATTERN = r"-?(?:0|[1-9][0-9]*)"
NUMBER_PATTERN = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
DATE_PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME_PATTERN = (
    DATE_PATTERN + r"[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_WHOLE, _NUMBER, _DATE, _TIME = map(re.compile, (WHOLE_PATTERN, NUMBER_PATTERN, DATE_PATTERN, TIME_PATTERN))
_INT64 = range(-(2**63), 2**63)
SAFE_DIGITS = 15
"""A float64 holds any number of this many digits, unless it is very small."""
_MOST_DIGITS = 1100
"""No float64 has more."""
SMALLEST = 2.2250738585072014e-308
"""Below this number a float64 holds fewer digits."""


def kinds_of(text: str) -> int:
    """What a cell may be, which is not null and has no blanks around it; nothing if it can only be text."""
    if text in BOOLS:
        return BOOLS[text][0]
    if _WHOLE.fullmatch(text):
        return _kinds_of_whole(text)
    if _NUMBER.fullmatch(text):
        return FLOAT if is_held(text) else 0
    if _DATE.fullmatch(text):
        return DATE if _is_read(parse_date, text) else 0
    return TIME if _TIME.fullmatch(text) and _is_read(parse_time, text) else 0


def _kinds_of_whole(text: str) -> int:
    if text == "-0":
        return FLOAT
    if len(text) > 20 or int(text) not in _INT64:
        return 0
    return INT | FLOAT if is_held(text) else INT


def _is_read(parse: Callable[[str], int], text: str) -> bool:
    try:
        parse(text)
    except InvalidInput:
        return False
    return True


def is_held(text: str) -> bool:
    """Whether a float64 holds a number: printed with as many digits, it is the same."""
    number = float(text)
    if not math.isfinite(number):
        return False
    mantissa = re.split("[eE]", text)[0].lstrip("-").replace(".", "")
    digits = mantissa.strip("0")
    if number == 0 or not digits:
        return not digits
    if len(digits) <= SAFE_DIGITS and abs(number) >= SMALLEST:
        return True
    return len(digits) <= _MOST_DIGITS and Decimal(f"{number:.{len(digits) - 1}e}") == Decimal(text)


class Guess:
    """What the cells of a column allow so far. It can be pickled, and joined with that of other cells."""

    __slots__ = ("has_texts", "has_values", "kinds")

    def __init__(self, kinds: int = ANY, has_values: bool = False, has_texts: bool = False) -> None:
        self.kinds = kinds
        self.has_values = has_values
        self.has_texts = has_texts
        """Whether there are cells that are null unless the column is text, such as a quoted cell without text."""

    def see(self, cell: str, nulls: frozenset[str]) -> None:
        """Take a cell that is not null as it stands."""
        text = cell.strip(BLANKS)
        if text in nulls:
            self.has_texts = True
        else:
            self.has_values = True
            self.kinds &= kinds_of(text) if self.kinds else 0

    def join(self, other: Guess) -> None:
        """Take what was found out of other cells of the column."""
        self.kinds &= other.kinds
        self.has_values |= other.has_values
        self.has_texts |= other.has_texts

    @property
    def is_settled(self) -> bool:
        """Whether the column is text, whatever comes."""
        return self.has_values and not self.kinds

    def type(self) -> t.Type:
        """The type of the column."""
        if not self.has_values:
            return t.STRING if self.has_texts else t.NULL
        return next((typ for kind, typ in _TYPES if self.kinds & kind), t.STRING)


# ---- cells of a known type


class BadCell(Exception):
    """A cell that is not of the type of its column."""


def parse_cell(text: str, typ: t.Type) -> Data:
    """The data of a cell, which is not null and has no blanks around it, in a column of a type other than string."""
    if typ is t.NULL:
        raise BadCell
    under = typ.under
    try:
        if under is t.DATE:
            return _parse_day(text)
        if isinstance(under, t.Decimal):
            return parse_exactly(text, under)
    except InvalidInput:
        raise BadCell from None
    value = cast_primitive(Value(t.STRING, text), typ)
    if is_error(value):
        raise BadCell
    return value.data


def _parse_day(text: str) -> int:
    """The day that a text names, in any common layout. A cast would drop the time of day; here that is an error."""
    if _DATE.fullmatch(text):
        return parse_date(text)
    instant = parse_any_time(text)
    if instant % DAY:
        raise InvalidInput("a time of day")
    return instant // DAY


Parse = Callable[[str | None], Data]


def parser(typ: t.Type, nulls: frozenset[str]) -> Parse:
    """From a cell to the data of a column; raises BadCell."""
    if typ.under is t.STRING:
        return lambda cell: cell

    def parse(cell: str | None) -> Data:
        text = None if cell is None else cell.strip(BLANKS)
        return None if text is None or text in nulls else parse_cell(text, typ)

    return parse


def bad_cell(name: str, text: str, typ: t.Type) -> InvalidInput:
    """The error of a cell that is not of the type of its column."""
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return InvalidInput(f"column {name!r}: {shown!r} is not of type {format_type(typ)}")
