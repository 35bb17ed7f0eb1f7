from __future__ import annotations

from shoal.lang.aggregates import AGGREGATES, is_aggregate


def test_only_count_goes_without_an_argument() -> None:
    assert [name for name, signature in AGGREGATES.items() if not signature.needs_argument] == ["count"]


def test_other_functions_are_no_aggregates() -> None:
    assert is_aggregate("collect_map")
    assert not is_aggregate("len")
