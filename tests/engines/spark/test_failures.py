"""What Spark says, as one line of ours."""

from __future__ import annotations

import sys

import pytest

from shoal.engines.spark.failures import translated, translated_statement
from shoal.errors import CorruptData, InvalidInput, StorageFailure, Unsupported

TRACEBACK = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
Traceback (most recent call last):
  File "worker.py", line 1, in main
{}
"""
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
BROKEN = "the Python of executors runs no tasks of Spark"
OTHER_PYTHON = """pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker
 has different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions."""


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("shoal.errors.CorruptData: p/data/x: checksum mismatch", CorruptData, "p/data/x: checksum mismatch"),
        ("RuntimeError: shoal.errors.Unsupported: executor a lacks numpy", Unsupported, "executor a lacks numpy"),
        (
            'java.io.IOException: Cannot run program "python9": error=2',
            Unsupported,
            "executors have no Python called python9 (let spark.pyspark.python name the one that they have)",
        ),
        (
            OTHER_PYTHON,
            Unsupported,
            "executors have Python 3.12, and the driver 3.11 (let spark.pyspark.python name the driver's version)",
        ),
        (
            ": org.apache.spark.SparkException: EOFException occurred while reading from pyspark.daemon's stdout.",
            Unsupported,
            f"{BROKEN} (let spark.pyspark.python name a Python {VERSION} there; SHOAL_SPARK_LOG=WARN shows more)",
        ),
        (
            "Job aborted due to stage failure: Master removed our application: FAILED",
            Unsupported,
            "the cluster has ended the session of Spark: its log says why (SHOAL_SPARK_LOG=WARN shows more)",
        ),
        (
            "Caused by: java.lang.IllegalStateException: nothing to read",
            StorageFailure,
            "Spark: java.lang.IllegalStateException: nothing to read (SHOAL_SPARK_LOG=WARN shows more)",
        ),
        (
            "ZeroDivisionError: division by zero",
            StorageFailure,
            "Spark: ZeroDivisionError: division by zero (SHOAL_SPARK_LOG=WARN shows more)",
        ),
    ],
)
def test_the_error_of_a_job_is_one_line(line: str, kind: type[Exception], message: str) -> None:
    error = translated(RuntimeError(TRACEBACK.format(line)))
    assert (type(error), str(error)) == (kind, message)


class FromSpark(Exception):
    """An error as pyspark has it."""

    def getCondition(self) -> str:  # noqa: N802 - the name that pyspark has for it
        return "UNRESOLVED_COLUMN"


def test_what_is_wrong_with_a_statement_is_the_callers() -> None:
    error = translated_statement(FromSpark("[UNRESOLVED_COLUMN] no column x. SQLSTATE: 42703\n'Project"))
    assert (type(error), str(error)) == (InvalidInput, "sql: [UNRESOLVED_COLUMN] no column x.")
    assert type(translated_statement(ValueError("x"))) is StorageFailure
