"""The 22 queries of TPC-H at scale 0.1, with decimals and dates: `shoal sql` gives the answers of DuckDB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `tpchgen-cli`, from PyPI."""
    target = tmp_path_factory.mktemp("tpch")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), "tpchgen-cli==4.0.0"]
    subprocess.run(install, check=True, capture_output=True)
    return target / "bin"


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("engine", [(), ("--spark",)], ids=["duckdb", "spark"])
def test_answers_are_those_of_duckdb(engine: tuple[str, ...], generator: Path) -> None:
    path = os.pathsep.join((str(generator), os.environ["PATH"]))
    command = [sys.executable, "-m", "bench.tpch", *engine]
    ran = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count(" DuckDB ") == 23
    assert "wrong" not in ran.stdout
