from __future__ import annotations

import pytest

from shoal.lang.aggregates import AGGREGATES, argument_complaint, is_aggregate


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_only_count_goes_without_an_argument(name: str) -> None:
    assert argument_complaint(name, has_argument=True) is None
    expected = None if name == "count" else f"{name}: argument required"
    assert argument_complaint(name, has_argument=False) == expected


def test_other_functions_are_no_aggregates() -> None:
    assert is_aggregate("collect_map")
    assert not is_aggregate("len")
