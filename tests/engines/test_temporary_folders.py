"""Temporary folders end with their process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from shoal.engines.temporary_folders import TemporaryFolder, remove_abandoned

HOLDER = """
from shoal.engines.temporary_folders import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "1").write_text("x")
print(folder.path, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        remove_abandoned()
        assert (left / "1").read_text() == "x"
        process.kill()
    assert left.exists()
    folder = TemporaryFolder()
    assert list(temporary.iterdir()) == [folder.path]
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_folders_of_this_process_are_kept(temporary: Path) -> None:
    folders = [TemporaryFolder(), TemporaryFolder()]
    remove_abandoned()
    assert sorted(temporary.iterdir()) == sorted(folder.path for folder in folders)
    for folder in folders:
        folder.remove()


def test_a_folder_without_a_lock_is_left_alone(temporary: Path) -> None:
    (temporary / "shoal-spill-x").mkdir()
    remove_abandoned()
    assert (temporary / "shoal-spill-x").exists()
