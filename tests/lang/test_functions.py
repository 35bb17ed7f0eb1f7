from __future__ import annotations

import pytest

from shoal.errors import InvalidInput
from shoal.lang.functions import SHAPING, SIGNATURES, check_call, is_boolean, signature

REFUSED = [
    ("notafunction", 0, "no such function"),
    ("sum", 1, "no such function"),
    ("int64", 1, "no such function"),
    ("abs", 0, "too few arguments"),
    ("abs", 2, "too many arguments"),
    ("replace", 2, "too few arguments"),
    ("now", 1, "too many arguments"),
    ("cast", 0, "too few arguments"),
    ("cast", 3, "too many arguments"),
    ("has", 0, "too few arguments"),
]


@pytest.mark.parametrize("name, count, message", REFUSED)
def test_a_wrong_call_is_refused(name: str, count: int, message: str) -> None:
    with pytest.raises(InvalidInput) as e:
        check_call(name, count)
    assert str(e.value) == message


@pytest.mark.parametrize("name, count", [("abs", 1), ("has", 9), ("every", 1), ("is", 1), ("ksuid", 0), ("map", 2)])
def test_a_right_call_passes(name: str, count: int) -> None:
    check_call(name, count)


def test_defaults_are_paths() -> None:
    assert signature("every").default == ("ts",)
    assert signature("is").default == signature("nest_dotted").default == ()
    assert signature("abs").default is None


def test_the_shaping_functions_take_this_by_default() -> None:
    assert {"cast", "crop", "fill", "fit", "order", "shape"} == SHAPING
    assert all(SIGNATURES[name].default == () for name in SHAPING)


def test_predicates_are_known() -> None:
    expected = {"cidr_match", "grep", "has", "has_error", "is", "is_error", "missing"}
    assert {name for name in SIGNATURES if is_boolean(name)} == expected
    assert not is_boolean("no such name")
