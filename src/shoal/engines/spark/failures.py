"""What Spark says when something fails, as one error of ours with one line."""

from __future__ import annotations

import re
import sys

from shoal import errors
from shoal.errors import InvalidInput, ShoalError, StorageFailure, Unsupported

_OF_THE_CLUSTER = ("PythonException", "SparkException", "SparkNoSuchElementException", "StreamingQueryException")
_OURS = re.compile(r"\b(shoal\.[\w.]*)\.([A-Z]\w+): (.+)$", re.MULTILINE)
_LAST_WORDS = re.compile(r"^(?:Caused by: )?[\w.$]*(?:Error|Exception|Failure): .+$", re.MULTILINE)
_PYTHONS = re.compile(r"PYTHON_VERSION_MISMATCH.*?(\d+\.\d+).*?(\d+\.\d+)", re.DOTALL)
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_MORE = "SHOAL_SPARK_LOG=WARN shows more"


def translated(error: Exception) -> ShoalError:
    """The error of a job; errors of ours, which tasks tell in a traceback, are what they were."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        module, name, message = ours[-1]
        return _kind(module, name)(message.strip())
    if (pythons := _PYTHONS.search(text)) is not None:
        return Unsupported(
            f"executors have Python {pythons[1]}, and the driver {pythons[2]}"
            " (let spark.pyspark.python name the driver's version)"
        )
    if (python := _NO_PYTHON.search(text)) is not None:
        return Unsupported(
            f"executors have no Python called {python[1]} (let spark.pyspark.python name the one that they have)"
        )
    return StorageFailure(f"Spark: {reason_of(error)} ({_MORE})")


def translated_statement(error: Exception) -> ShoalError:
    """The error of an SQL statement: what is wrong with the statement itself is the caller's."""
    if _OURS.search(str(error)) is None and class_of(error) is not None and not _is_of_the_cluster(error):
        return InvalidInput(f"sql: {' '.join(str(error).partition(' SQLSTATE')[0].split())}")
    return translated(error)


def class_of(error: Exception) -> str | None:
    """The error class that Spark gives an error; None if the error is not from Spark."""
    ask = getattr(error, "getCondition", None)
    condition: str | None = None if ask is None else ask()
    return condition


def reason_of(error: Exception) -> str:
    """The most useful line: the last error that a traceback, in Python or in Java, ends with."""
    lines = _LAST_WORDS.findall(str(error))
    return (lines[-1] if lines else str(error).strip().partition("\n")[0] or type(error).__name__)[:300]


def _is_of_the_cluster(error: Exception) -> bool:
    return type(error).__name__ in _OF_THE_CLUSTER


def _kind(module: str, name: str) -> type[ShoalError]:
    """The class of the error tree that an error of a task belongs to."""
    raised = getattr(sys.modules.get(module), name, StorageFailure)
    return next(kind for kind in raised.__mro__ if kind.__module__ == errors.__name__)
