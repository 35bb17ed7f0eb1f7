"""What is remembered of files whose checksums matched: for how long, for how many, and in which state of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.errors import CorruptData, StorageFailure
from shoal.storage.verified_files import MAX_AGE, SETTLED, VerifiedFile, VerifiedFiles, signature_of

FIRST = 1_000_000_000.0


class Files:
    """Files of a directory and a memory of them, by a clock that is set by hand."""

    def __init__(self, root: Path, capacity: int = 100) -> None:
        self.root = root
        self.now = FIRST * 10
        self.checks: list[str] = []
        self.memory = VerifiedFiles(capacity, clock=lambda: self.now)

    def write(self, name: str, text: str, modified: float = FIRST) -> None:
        path = self.root / name
        path.write_text(text)
        os.utime(path, (modified, modified))

    def ensure(self, name: str) -> bool:
        """Whether the file was read."""
        before = len(self.checks)
        self.memory.ensure(str(self.root / name), lambda: self.checks.append(name))
        return len(self.checks) > before


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_file_is_read_once_as_long_as_nobody_writes_to_it(files: Files) -> None:
    files.write("a", "one")
    assert [files.ensure("a") for _ in range(3)] == [True, False, False]
    files.write("a", "two", FIRST + 1)
    assert [files.ensure("a") for _ in range(2)] == [True, False]


def test_content_that_keeps_size_and_time_is_seen_by_the_time_of_the_inode(files: Files) -> None:
    files.write("a", "one")
    assert files.ensure("a")
    before = signature_of(str(files.root / "a"))
    while signature_of(str(files.root / "a")).changed == before.changed:  # file systems count in steps
        files.write("a", "two")
    assert files.ensure("a")


def test_a_file_that_replaces_another_is_read(files: Files) -> None:
    files.write("a", "one")
    files.write("b", "two")
    assert files.ensure("a")
    os.replace(files.root / "b", files.root / "a")
    assert files.ensure("a")


@pytest.mark.parametrize("step", [MAX_AGE, -1])
def test_a_match_expires_with_age_and_with_a_clock_that_was_set_back(files: Files, step: float) -> None:
    files.write("a", "one")
    assert files.ensure("a")
    files.now += MAX_AGE - 1
    assert not files.ensure("a")
    files.now += step - (MAX_AGE - 1)
    assert files.ensure("a")


def test_a_file_that_was_just_written_is_read_again(files: Files) -> None:
    files.write("a", "one")
    files.now = signature_of(str(files.root / "a")).changed / 1e9 + SETTLED / 2
    assert [files.ensure("a") for _ in range(2)] == [True, True]
    files.now += SETTLED
    assert [files.ensure("a") for _ in range(2)] == [True, False]


def test_the_least_recently_used_is_replaced(tmp_path: Path) -> None:
    files = Files(tmp_path, capacity=2)
    for name in "abc":
        files.write(name, name)
    assert [files.ensure(name) for name in "abacb"] == [True, True, False, True, True]
    assert len(files.memory) == 2


def test_a_failed_check_is_not_remembered(files: Files) -> None:
    files.write("a", "one")

    def fail() -> None:
        raise CorruptData("a")

    with pytest.raises(CorruptData):
        files.memory.ensure(str(files.root / "a"), fail)
    assert len(files.memory) == 0
    assert files.ensure("a")


def test_a_verified_file_is_compared_with_what_it_was(files: Files) -> None:
    files.write("a", "one")
    path = str(files.root / "a")
    verified = VerifiedFile(path, "a", signature_of(path), lambda: files.checks.append("a"))
    verified.require_unchanged()
    assert files.checks == []
    os.link(path, files.root / "link")
    verified.require_unchanged()
    assert files.checks == ["a"]
    files.write("a", "two", FIRST + 1)
    with pytest.raises(StorageFailure, match=r"a: .*repeat the query"):
        verified.require_unchanged()
    os.unlink(path)
    verified.require_unchanged()
