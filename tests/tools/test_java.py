"""Spark 4.3 starts on the Java that `tools/java.py` finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.engines.spark.installation import find_java, java_version
from tools import java

COUNT = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("counted", session.range(1000).count())
session.stop()
"""


@pytest.mark.long
def test_spark_runs_on_the_java_that_is_found() -> None:
    launcher = java.find() or find_java()
    assert java_version(launcher) >= 17
    environment = {**os.environ, "JAVA_HOME": str(launcher.parent.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, timeout=240)
    assert "counted 1000" in done.stdout, done.stderr[-2000:]


def test_what_is_no_java_has_version_0() -> None:
    assert java_version(Path("/nonexistent/java")) == 0
    assert java_version(Path(sys.executable)) == 0
