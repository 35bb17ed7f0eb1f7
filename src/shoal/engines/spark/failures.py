"""What Spark says when something fails, as one error of ours with one line."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from shoal import errors
from shoal.engines.spark import logs
from shoal.engines.spark.installation import NEEDED
from shoal.engines.stopping import current
from shoal.errors import InvalidInput, ShoalError, StorageFailure, Unsupported

_OF_THE_CLUSTER = ("PythonException", "SparkException", "SparkNoSuchElementException", "StreamingQueryException")
_OURS = re.compile(r"\b(shoal\.[\w.]*)\.([A-Z]\w+): (.+)$", re.MULTILINE)
_LAST_WORDS = re.compile(r"^(?:Caused by: |: )?([\w.$]*(?:Error|Exception|Failure): .+)$", re.MULTILINE)
_PYTHONS = re.compile(r"PYTHON_VERSION_MISMATCH.*?(\d+\.\d+).*?(\d+\.\d+)", re.DOTALL)
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_BROKEN_PYTHON = re.compile(r"pyspark\.daemon's stdout|Error from python worker")
_ENDED = re.compile(
    r"Master removed our application|stopped SparkContext|SparkContext was shut ?down|SparkContext has been shutdown"
    r"|LiveListenerBus is stopped|SparkEnv\$\.get\(\)\" is null|All masters are unresponsive"
)
"""What Spark says in a session that it has ended by itself."""
_FEW_ENDS = 4
"""Executors of which some end by chance; more than that share a cause."""
_MORE = "SHOAL_SPARK_LOG=WARN shows more"


@contextmanager
def translating() -> Iterator[None]:
    """Within, what fails for other reasons than those of our own code is a failure of the cluster."""
    try:
        yield
    except ShoalError:
        raise
    except Exception as e:
        current().check()
        raise translated(e) from e


def translated(error: Exception) -> ShoalError:
    """The error of a job; errors of ours, which tasks tell in a traceback, are what they were."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        module, name, message = ours[-1]
        return _kind(module, name)(message.strip())
    if _ENDED.search(text) is not None:
        return Unsupported(ended_session())
    if (pythons := _PYTHONS.search(text)) is not None:
        return Unsupported(
            f"executors have Python {pythons[1]}, and the driver {pythons[2]}"
            " (let spark.pyspark.python name the driver's version)"
        )
    if (python := _NO_PYTHON.search(text)) is not None:
        return Unsupported(
            f"executors have no Python called {python[1]} (let spark.pyspark.python name the one that they have)"
        )
    if _BROKEN_PYTHON.search(text) is not None:
        version = ".".join(platform.python_version_tuple()[:2])
        return Unsupported(
            f"the Python of executors runs no tasks of Spark (let spark.pyspark.python name a Python {version} there;"
            f" {_MORE})"
        )
    return StorageFailure(f"Spark: {reason_of(error)} ({_MORE})")


def ended_session() -> str:
    """What is said of a session that the cluster has ended; the next query starts another."""
    return f"the cluster has ended the session of Spark: {ended_executors() or f'its log says why ({_MORE})'}"


def ended_executors(since: int = 0) -> str | None:
    """What is said of executors that end when they start, again and again; None if that is not known of any.

    `since` is a length of the log.
    """
    reasons = logs.ended_executors(since)
    if len(reasons) < _FEW_ENDS:
        return None
    return (
        f"executors end when they start: {reasons[-1]} (see whether the workers have Java {NEEDED} or newer; what an"
        " executor said last is in the work folder of its worker)"
    )


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
