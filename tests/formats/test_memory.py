"""Reading takes no more memory for a long input than for a short one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEBIBYTES = 512


def peak(name: str, gigabytes: float) -> int:
    command = [sys.executable, "-m", "bench.memory", name, str(gigabytes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.search(r"peak (\d+) MiB", done.stdout)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize(
    "name, short, long",
    [
        ("ndjson-columns", 0.05, 0.15),
        pytest.param("ndjson", 0.03, 0.12, marks=pytest.mark.long),
        pytest.param("zson", 0.015, 0.045, marks=pytest.mark.long),
        ("zng", 0.03, 0.12),
        pytest.param("csv", 0.02, 0.06, marks=pytest.mark.long),
        ("csv-columns", 0.05, 0.15),
    ],
)
def test_memory_does_not_grow_with_the_input(name: str, short: float, long: float) -> None:
    first, second = peak(name, short), peak(name, long)
    assert second < MEBIBYTES
    assert second - first < 64
