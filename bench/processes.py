"""Runs a measurement in its own process and records its peak memory.

The peak is that of the process. If it has child processes (the JVM of Spark and its Python workers), it is the largest
sum over all of them, sampled twenty times a second.
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
"""For Spark with and without Shoal: with its default of 1 GiB it would spill data that fits into memory."""


class Measured(NamedTuple):
    """The results of a process, and its peak memory in MiB."""

    results: dict[str, Any]
    peak: int


def run(module: str, *arguments: str) -> Measured:
    """Run a module that ends with a call of `report`."""
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
        report = json.loads(out.read().splitlines()[-1])
    return Measured(report["results"], max(most, report["peak"]))


def report(**results: Any) -> None:
    """Report results to the parent process."""
    print(json.dumps({"results": results, "peak": peak.mebibytes()}))
