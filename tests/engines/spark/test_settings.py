"""The configuration of sessions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.engines.spark.installation import remove_scratch_directory
from shoal.engines.spark.settings import SETTINGS, Reach, configuration


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SHOAL_SPARK_CONF", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    remove_scratch_directory()


def test_every_setting_is_there_once_and_has_a_reason() -> None:
    assert len({setting.key for setting in SETTINGS}) == len(SETTINGS)
    assert all(setting.why for setting in SETTINGS)


@pytest.mark.parametrize("master", [None, "sc://host:15002"])
def test_of_a_driver_that_others_started_only_the_session_is_configured(master: str | None, tmp_path: Path) -> None:
    expected = {setting.key: setting.value for setting in SETTINGS if setting.reach is Reach.SESSION}
    assert configuration(master) == expected
    assert list(tmp_path.iterdir()) == []


def test_executors_elsewhere_are_not_told_of_addresses_here() -> None:
    conf = configuration("spark://host:7077")
    assert conf["spark.ui.enabled"] == "false"
    assert "spark.driver.bindAddress" not in conf


@pytest.mark.parametrize(
    "master, cores",
    [
        ("local", 1),
        ("local[4]", 4),
        ("local[4,2]", 4),
        ("local[*]", os.cpu_count()),
        ("local-cluster[2,3,1024]", 6),
    ],
)
def test_shuffles_have_a_few_tasks_for_each_core_of_this_machine(master: str, cores: int) -> None:
    assert configuration(master)["spark.sql.shuffle.partitions"] == str(3 * cores)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", {}),
        ("spark.a=1", {"spark.a": "1"}),
        (" spark.a = x y , spark.b=-Dc=d,", {"spark.a": "x y", "spark.b": "-Dc=d"}),
        ("spark.jars=a.jar,b.jar,spark.c=", {"spark.jars": "a.jar,b.jar", "spark.c": ""}),
        ("spark.sql.session.timeZone=CET", {"spark.sql.session.timeZone": "CET"}),
    ],
)
def test_the_environment_adds_settings_and_has_the_last_word(
    text: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without = configuration(None)
    monkeypatch.setenv("SHOAL_SPARK_CONF", text)
    assert configuration(None) == {**without, **expected}
