"""An archive of Spark's classes, parsed and verified, that a JVM maps into memory: it makes a start twice as fast.

The archive is bound to the build of the JVM and to the exact list of jars; its name is made of both. It is built once,
on request, by a run that does what sessions do; a start uses it if it is there. A JVM that finds it does not fit after
all leaves it alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from shoal.engines.spark.installation import cache_directory, find_java, spark_jars
from shoal.errors import Unsupported
from shoal.extras import require

_PATIENCE = 900
"""Seconds for the run that builds it; it takes one minute on two idle cores."""


def options(java: Path) -> list[str]:
    """The options that make a JVM use the archive; none if it was not built."""
    archive = path(java)
    quiet = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *quiet] if os.access(archive, os.R_OK) else []


def path(java: Path) -> Path:
    """Where the archive for a Java and the installed Spark is, or would be."""
    jars = spark_jars()
    install, build = _digest([java.resolve(), jars[0].parent]), _digest([*_parts_of(java), *jars], stat=True)
    return cache_directory() / f"spark-{install}-{build}.jsa"


def build() -> Path:
    """Build the archive by a run in a process of its own, and drop those of earlier builds of this Java and Spark."""
    require("pyspark")
    archive = path(find_java())
    archive.parent.mkdir(parents=True, exist_ok=True)
    aside = archive.with_suffix(f".{os.getpid()}")
    try:
        _train(aside)
        aside.replace(archive)
    finally:
        aside.unlink(missing_ok=True)
    for earlier in archive.parent.glob(f"{archive.name.rpartition('-')[0]}-*.jsa"):
        if earlier != archive:
            earlier.unlink(missing_ok=True)
    return archive


def _train(target: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "shoal.engines.spark.training", str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)  # noqa: S603
    except subprocess.TimeoutExpired as e:
        raise Unsupported(f"the archive of Spark's classes was not built within {_PATIENCE} s (try again later)") from e
    if done.returncode or not target.exists():
        why = (done.stderr.strip().splitlines() or ["this Java writes none"])[-1]
        raise Unsupported(f"the archive of Spark's classes cannot be built: {why} (sessions start without it, slower)")


def _parts_of(java: Path) -> list[Path]:
    """The files that tell one build of a JVM from another."""
    home = java.resolve().parent.parent
    return [java.resolve(), home / "release", home / "lib" / "server" / "libjvm.so"]


def _digest(files: Iterable[Path], stat: bool = False) -> str:
    lines = [f"{file} {_stamp(file) if stat else ''}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _stamp(file: Path) -> str:
    try:
        status = file.stat()
    except FileNotFoundError:
        return "-"
    return f"{status.st_size} {status.st_mtime_ns}"
