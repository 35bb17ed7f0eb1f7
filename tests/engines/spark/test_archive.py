"""The archive of classes: built once, aside, and used by the next start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.engines.spark.conftest import Bench

from shoal.engines.spark import archive
from shoal.engines.spark.installation import find_java
from shoal.testing.tiers import IS_LONG


def test_without_an_archive_a_start_has_no_options_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_CACHE", str(tmp_path))
    java = find_java()
    assert archive.options(java) == []
    archive.path(java).touch()
    assert archive.options(java)[0] == f"-XX:SharedArchiveFile={archive.path(java)}"


def test_another_build_of_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_CACHE", str(tmp_path))
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    shutil.copy(find_java(), java)
    before = archive.path(java)
    assert archive.path(java) == before
    (tmp_path / "home" / "release").write_text("another")
    assert archive.path(java) != before


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="the run that builds it takes a minute")
def test_an_archive_is_built_aside_and_used(bench: Bench) -> None:
    (made,) = bench.run("from shoal.engines.spark import archive; print(archive.build())")
    assert [str(file) for file in bench.cache.iterdir()] == [made]
    assert bench.left_running() == []
    told = bench.run(
        """
        from shoal.engines.spark.session import spark_session
        session = spark_session()
        print(session.range(3).count())
        with open(f"/proc/{session.sparkContext._gateway.proc.pid}/maps") as maps:
            print(*{line.split()[-1] for line in maps if "spark-" in line and line.endswith(".jsa\\n")})
        """
    )
    assert told == ["3", made]
    assert bench.left_running() == []
