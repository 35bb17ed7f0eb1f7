"""Processes with Spark, since a process has one JVM for life.

Most tests share one session: to start it and to warm it up takes longer than what they test. Tests of sessions
themselves run programs, each in a process and directories of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import ParamSpec, TypeVar

import pytest

from shoal.api import pool_settings

_SPARK = ("SHOAL_SPARK", "SPARK_", "PYSPARK_")
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that ends before it pays to optimize what it runs."""
CONF = f"spark.driver.extraJavaOptions={_SHORT_LIVED},spark.executor.extraJavaOptions={_SHORT_LIVED}"


P = ParamSpec("P")
T = TypeVar("T")


class SharedSession:
    """A process whose session all tests use."""

    def __init__(self, process: ProcessPoolExecutor) -> None:
        self._process = process

    def run(self, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a check in the process; returns what it returns, and raises what it raises."""
        return self._process.submit(check, *args, **kwargs).result()


def _prepare(temporary: Path) -> None:
    """Before the session starts: executors inherit the environment. Pools keep data in objects, as in all tests."""
    os.environ.update(TMPDIR=str(temporary), SHOAL_SPARK_CONF=CONF)
    pool_settings.DEFAULT_INLINE = 0


@pytest.fixture(scope="session")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSession]:
    temporary = tmp_path_factory.mktemp("spark")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _prepare, (temporary,)) as process:
        yield SharedSession(process)


class Bench:
    """Runs programs with a place for temporary files, one to stand in, and a cache, all empty."""

    def __init__(self, root: Path) -> None:
        self.temporary, self.standing, self.cache = root / "tmp", root / "cwd", root / "cache"
        for directory in (self.temporary, self.standing, self.cache):
            directory.mkdir()

    def start(self, code: str, **variables: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_SPARK)}
        ours = {"TMPDIR": str(self.temporary), "SHOAL_CACHE": str(self.cache), "SHOAL_SPARK_CONF": CONF}
        return subprocess.Popen(
            [sys.executable, "-c", dedent(code)],
            cwd=self.standing,
            env={**kept, **ours, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, **variables: str) -> list[str]:
        """What a program prints; that it says nothing else, and succeeds, is checked."""
        process = self.start(code, **variables)
        out, err = process.communicate(timeout=240)
        assert (err, process.returncode) == ("", 0)
        return out.splitlines()

    def left_running(self, seconds: float = 30) -> list[str]:
        """The commands of processes that were started by our programs and do not end in time."""
        until = time.monotonic() + seconds
        while (running := self.running()) and time.monotonic() < until:
            time.sleep(0.1)
        return running

    def running(self) -> list[str]:
        mark = f"TMPDIR={self.temporary}".encode()
        return [command for place in Path("/proc").glob("[0-9]*") if (command := _command(place, mark))]


def _command(process: Path, mark: bytes) -> str:
    """The command of a process if the mark is in its environment."""
    try:
        variables = (process / "environ").read_bytes().split(b"\0")
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode() if mark in variables else ""
    except OSError:
        return ""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
