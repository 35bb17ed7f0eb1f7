"""The built-in functions by name: how many arguments each takes, and which one it can do without.

Aggregates are not here, nor are the names of primitive types, which are casts. `min` and `max` with
one argument are aggregates, with more they are the functions here.
"""

from __future__ import annotations

from shoal.errors import InvalidInput
from shoal.lang.aggregates import AGGREGATES
from shoal.model.node import frozen
from shoal.suggestions import did_you_mean


@frozen
class Signature:
    """What the compiler has to know of a function."""

    min_args: int
    max_args: int | None
    """None for any number."""
    is_boolean: bool = False
    default: tuple[str, ...] | None = None
    """The path of the field that is put in front of the arguments when they are the fewest; () is `this`."""


_ONE = Signature(1, 1)
_TWO = Signature(2, 2)
_MANY = Signature(1, None)
_PREDICATE = Signature(1, 1, is_boolean=True)
_PREDICATE_OF_MANY = Signature(1, None, is_boolean=True)
_SHAPING = Signature(1, 2, default=())

SIGNATURES: dict[str, Signature] = {
    "abs": _ONE,
    "base64": _ONE,
    "bucket": _TWO,
    "cast": _SHAPING,
    "ceil": _ONE,
    "cidr_match": Signature(2, 2, is_boolean=True),
    "coalesce": _MANY,
    "compare": Signature(2, 3),
    "crop": _SHAPING,
    "error": _ONE,
    "every": Signature(1, 1, default=("ts",)),
    "fields": _ONE,
    "fill": _SHAPING,
    "fit": _SHAPING,
    "flatten": _ONE,
    "floor": _ONE,
    "grep": Signature(2, 2, is_boolean=True),
    "grok": Signature(2, 3),
    "has": _PREDICATE_OF_MANY,
    "has_error": _PREDICATE,
    "hex": _ONE,
    "is": Signature(1, 2, is_boolean=True, default=()),
    "is_error": _PREDICATE,
    "join": Signature(1, 2),
    "kind": _ONE,
    "ksuid": Signature(0, 1),
    "len": _ONE,
    "levenshtein": _TWO,
    "log": _ONE,
    "lower": _ONE,
    "map": _TWO,
    "max": _MANY,
    "min": _MANY,
    "missing": _PREDICATE_OF_MANY,
    "nameof": _ONE,
    "nest_dotted": Signature(0, 1, default=()),
    "network_of": Signature(1, 2),
    "now": Signature(0, 0),
    "order": _SHAPING,
    "parse_uri": _ONE,
    "parse_zson": _ONE,
    "pow": _TWO,
    "quiet": _ONE,
    "regexp": _TWO,
    "regexp_replace": Signature(3, 3),
    "replace": Signature(3, 3),
    "round": _ONE,
    "rune_len": _ONE,
    "shape": _SHAPING,
    "split": _TWO,
    "sqrt": _ONE,
    "strftime": _TWO,
    "trim": _ONE,
    "typename": Signature(1, 2),
    "typeof": _ONE,
    "typeunder": _ONE,
    "under": _ONE,
    "unflatten": _ONE,
    "upper": _ONE,
}


SHAPING = frozenset(name for name, found in SIGNATURES.items() if found is _SHAPING)
"""The functions that make a value like a type."""


def signature(name: str) -> Signature:
    """The signature of a function; InvalidInput if there is no such function."""
    entry = SIGNATURES.get(name)
    if entry is None:
        raise InvalidInput(f"no such function{did_you_mean(name, (*SIGNATURES, *AGGREGATES))}")
    return entry


def check_call(name: str, count: int) -> None:
    """Refuse a call of an unknown function, or with too few or too many arguments."""
    expected = signature(name)
    if count < expected.min_args:
        raise InvalidInput("too few arguments")
    if expected.max_args is not None and count > expected.max_args:
        raise InvalidInput("too many arguments")


def is_boolean(name: str) -> bool:
    """Whether a call of this function, on its own, filters what passes."""
    return name in SIGNATURES and SIGNATURES[name].is_boolean
