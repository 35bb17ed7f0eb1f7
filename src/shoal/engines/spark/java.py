"""The Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from shoal.errors import Unsupported

NEEDED = 17
_REMEDY = f"install Java {NEEDED} or newer and set JAVA_HOME, or run: make setup"


def find_java() -> Path:
    """A Java from JAVA_HOME, the PATH, or the one that the setup put into this environment."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [Path(home, "bin", "java")] if home else []
    candidates += [Path(on_path)] if on_path else []
    candidates += [Path(sys.prefix, "java", "bin", "java")]
    for java in candidates:
        if os.access(java, os.X_OK):
            return java
    raise Unsupported(f"Spark needs Java, and there is none ({_REMEDY})")


def require_version(java: Path) -> None:
    """Unsupported if this Java is too old or does not run; asked only after a failure, for it costs a start."""
    version = _version(java)
    if version < NEEDED:
        found = f"is Java {version}" if version else "does not run"
        raise Unsupported(f"Spark needs Java {NEEDED} or newer, and {java} {found} ({_REMEDY})")


def _version(java: Path) -> int:
    try:
        out = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', out)
    return int(found[1]) if found else 0
