"""Bombs of every format: whatever becomes of them takes little memory and little time, or is refused by one line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.api.options import MIB
from shoal.formats import compression, registry
from shoal.testing.bomb import KINDS
from shoal.testing.bombs import BOMBS, OPTIONS
from shoal.testing.file_bombs import PACKED

SPARE = 96 * MIB
"""What DuckDB and Arrow take for themselves."""
SECONDS = 20


def test_every_format_that_can_be_read_has_a_bomb_of_every_kind() -> None:
    assert {name: set(KINDS) - set(BOMBS.get(name, ())) for name in registry.readable()} == {
        name: set() for name in registry.readable()
    }


def test_every_compression_has_a_bomb() -> None:
    assert set(PACKED) == {each.name for each in compression.COMPRESSIONS} | {"zip"}


def outcomes(*flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "shoal.testing.bombs", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line.pop("case"): line for line in lines}


def check(outcome: Any) -> None:
    assert outcome["memory"] < (OPTIONS.max_memory + SPARE) // MIB
    assert outcome["seconds"] < SECONDS
    refusal = outcome["refusal"]
    assert not refusal or refusal.startswith("refused: "), refusal
    assert "\n" not in refusal


@pytest.fixture(scope="module")
def loaded() -> dict[str, Any]:
    return outcomes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_bomb_takes_little_memory_and_time(name: str, kind: str, loaded: dict[str, Any]) -> None:
    check(loaded[f"{name}, {kind}, load"])


@pytest.mark.parametrize("name", sorted(PACKED))
def test_a_compressed_bomb_takes_little_memory_and_time(name: str, loaded: dict[str, Any]) -> None:
    outcome = loaded[f"line, in {name}, load"]
    check(outcome)
    assert outcome["refusal"]


def test_values_that_would_take_too_much_are_refused_with_the_way_out(loaded: dict[str, Any]) -> None:
    """Those formats are left out in which nothing repeats within a value."""
    for name in sorted(set(BOMBS) - {"csv", "tsv", "line", "parquet", "orc"}):
        assert "(raise -read.memory, or -limit.memory of a service)" in loaded[f"{name}, repeated, load"]["refusal"]


@pytest.mark.long
def test_all_bombs_take_little_memory_and_time_by_rows_and_by_columns() -> None:
    found = outcomes("-all")
    assert len(found) == 2 * (sum(map(len, BOMBS.values())) + len(PACKED))
    bad = {}
    for case, outcome in found.items():
        try:
            check(outcome)
        except AssertionError as e:
            bad[case] = (outcome, str(e))
    assert bad == {}


# ---- with the default limits, through the command


def peak(arguments: list[str | Path]) -> tuple[str, int, float]:
    """What a command prints as its error, its peak of memory in MiB, and its seconds of CPU."""
    process = subprocess.Popen([sys.executable, "-m", "shoal", *arguments], stderr=subprocess.PIPE)
    assert process.stderr is not None
    with process.stderr:
        error = process.stderr.read().decode()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return error, usage.ru_maxrss >> 10, usage.ru_utime + usage.ru_stime


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for words in (["init", "-q"], ["create", "-q", "-orderby", "ts", "logs"]):
        environment = {**os.environ, "SHOAL_LAKE": str(tmp_path / "lake")}
        subprocess.run([sys.executable, "-m", "shoal", *words], check=True, env=environment)
    return tmp_path / "lake"


WIDE = [b"a," * 1_000_000] * 10 + [b"a\n"]
ONES = [b"[", *[b"1," * 1_000_000] * 20, b"1]\n"]
DIGITS = [b"9" * 1_000_000] * 500


@pytest.mark.long
@pytest.mark.parametrize(
    "parts, flags, refusal",
    [
        (WIDE, [], "line 1: 10000000 fields, more than the 250000 parts that a type may have"),
        (ONES, [], "line 1: one value would take more than 2048 MiB of memory, half of the limit (raise -read.memory"),
        (DIGITS, [], "line 1: longer than 134217728 bytes (raise -zng.readmax)"),
        (DIGITS, ["-i", "zson"], "line 1, column 1: literal longer than 400 characters"),
        (DIGITS, ["-i", "json"], "line 1: longer than 134217728 bytes (raise -zng.readmax)"),
        (DIGITS, ["-i", "csv"], "line 1: longer than 134217728 bytes (raise -zng.readmax)"),
    ],
)
def test_small_files_that_grow_are_refused(
    parts: list[bytes], flags: list[str], refusal: str, lake: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", 1 if parts is DIGITS else 9) as file:
        file.writelines(parts)
    for command in (["load", "-lake", lake, "-use", "logs"], ["zq", "-f", "null"]):
        error, memory, seconds = peak([*command, *flags, path])
        rows = f"{path}: line 1, column 1: number of more than 4300 digits"  # value by value, a number ends sooner
        assert error.startswith((f"{path}: {refusal}", rows))
        assert memory < 600
        assert seconds < SECONDS


@pytest.mark.long
def test_a_load_of_very_many_shapes_ends_soon(lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "shapes.ndjson"
    path.write_text("".join(f'{{"ts":{i},"f{i}":{i}}}\n' for i in range(300_000)))
    error, memory, seconds = peak(["load", "-q", "-lake", lake, "-use", "logs", path])
    assert (error, memory < 1200, seconds < 60) == ("", True, True)
