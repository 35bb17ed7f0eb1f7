"""Jars are those that are pinned, are brought once, and what is missing for that is said."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.testing.kafka import jars
from shoal.testing.kafka.cache import Unavailable, cache_folder, cached

POM = """
<project>
  <modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-api</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
NAME = "slf4j-api-1.7.36.jar"


@pytest.fixture(autouse=True)
def _own_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pom of our own, pins that are wrong, and an empty cache."""
    monkeypatch.setattr(jars, "POMS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "small.xml").write_text(POM)
    (tmp_path / "small.sha256").write_text(f"{'0' * 64}  {NAME}\n")


def test_what_is_not_pinned_is_refused_and_does_not_stay(maven: None) -> None:
    with pytest.raises(jars.WrongJars, match=rf"^the jars of small are not those that are pinned: {NAME}$"):
        jars.jars("small")
    assert [path.name for path in cache_folder().iterdir()] == ["lock"]


def test_pins_are_read_as_they_are_written() -> None:
    text = (Path(jars.__file__).parent / "poms" / "kafka.sha256").read_text()
    assert jars.format_pins(jars.parse_pins(text)) == text


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Unavailable, match=r"^(java|mvn) is not installed$"):
        jars.jars("small")


def test_of_many_that_need_a_folder_one_brings_it() -> None:
    brought: list[Path] = []

    def bring(folder: Path) -> None:
        brought.append(folder)
        (folder / "first").touch()
        time.sleep(0.1)
        (folder / "second").touch()

    def files(_: int) -> int:
        return len(list(cached("name", b"pins", bring).iterdir()))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(files, range(8))) == [2] * 8
    assert len(brought) == 1
    assert cached("name", b"other pins", _nothing) != cached("name", b"pins", _fails)


def test_what_fails_is_tried_again() -> None:
    with pytest.raises(ZeroDivisionError):
        cached("name", b"pins", _fails)
    assert list(cached("name", b"pins", _nothing).iterdir()) == []


def _nothing(folder: Path) -> None:
    pass


def _fails(folder: Path) -> None:
    raise ZeroDivisionError
