"""A measurement in a process of its own, with the peak of its memory.

The peak is that of the process or, where it has processes below it (the JVM of Spark and its Python workers), the
greatest sum of all of them that was seen, looking twenty times a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from bench import peak

_PAUSE = 0.05
_SPARK = "spark.driver.memory=4g"
"""For Spark, ours and theirs: its default of 1 GiB would make it spill what fits into the memory of any machine now."""


class Measured(NamedTuple):
    """What a process told, and its peak in MiB."""

    found: dict[str, Any]
    peak: int


def run(module: str, *arguments: str) -> Measured:
    """Run a module that ends with a call of `tell`."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, stdout=out, stderr=errors, env={"SHOAL_SPARK_CONF": _SPARK, **os.environ})
        most = 0
        while process.poll() is None:
            most = max(most, peak.tree_mebibytes(process.pid))
            time.sleep(_PAUSE)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{module} {' '.join(arguments)} failed:\n{errors.read()}")
        out.seek(0)
        told = json.loads(out.read().splitlines()[-1])
    return Measured(told["found"], max(most, told["peak"]))


def tell(**found: Any) -> None:
    """Tell the process that ran this one."""
    print(json.dumps({"found": found, "peak": peak.mebibytes()}))
