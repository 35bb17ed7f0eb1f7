"""Engine choice: one table of thresholds decides for scans, statements and changes alike."""

from __future__ import annotations

import sys

import pytest

from shoal.errors import InvalidInput, Unsupported
from shoal.lake.workers import HERE
from shoal.planner import engine_choice
from shoal.planner.engine_choice import THRESHOLDS, choose_workers, for_scan, for_statement, named_engine, wants_spark


@pytest.mark.parametrize(
    ("size", "count", "first", "engine"),
    [
        (0, 0, None, "interp"),
        (THRESHOLDS.small, THRESHOLDS.short, None, "interp"),
        (THRESHOLDS.small + 1, 1, None, "duckdb"),
        (THRESHOLDS.small, THRESHOLDS.short + 1, None, "duckdb"),
        (THRESHOLDS.small + 1, 1_000_000, THRESHOLDS.few, "interp"),
        (THRESHOLDS.small + 1, 1_000_000, THRESHOLDS.few + 1, "duckdb"),
        (THRESHOLDS.large, 1_000_000, None, "duckdb"),
        (THRESHOLDS.large + 1, 1_000_000, None, "spark"),
    ],
)
def test_the_amount_of_data_chooses_the_engine_of_a_scan(size: int, count: int, first: int | None, engine: str) -> None:
    assert for_scan("auto", size, count, first).engine == engine


@pytest.mark.parametrize("engine", ["interp", "duckdb", "spark"])
def test_an_engine_that_is_named_is_taken(engine: engine_choice.Engine) -> None:
    for size in (0, THRESHOLDS.large + 1):
        assert for_scan(engine, size, size, None) == (engine, "as asked")


def test_statements_and_changes_go_to_spark_above_the_same_threshold() -> None:
    for size, is_large in ((THRESHOLDS.large, False), (THRESHOLDS.large + 1, True)):
        assert for_statement("auto", size, False) == ("spark" if is_large else "duckdb")
        assert wants_spark("auto", size) == is_large
    assert choose_workers("auto", "lake")(THRESHOLDS.large) is HERE
    assert for_statement("spark", THRESHOLDS.large + 1, True) == "duckdb"


def test_without_spark_duckdb_takes_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    size = THRESHOLDS.large + 1
    assert for_scan("auto", size, 1, None) == ("duckdb", "Spark is not installed")
    assert for_statement("auto", size, False) == "duckdb"
    assert choose_workers("auto", "lake")(size) is HERE


def test_unknown_engines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"unknown engine 'x' \(one of auto, interp, duckdb, spark\)"):
        named_engine("x")
    monkeypatch.setenv("SHOAL_ENGINE", "duckdb")
    assert named_engine(None) == "duckdb"


def test_without_pyspark_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(Unsupported) as raised:
        choose_workers("spark", "lake")(0)
    assert str(raised.value) == "Spark is not installed (install it with: pip install 'shoal[spark]')"
