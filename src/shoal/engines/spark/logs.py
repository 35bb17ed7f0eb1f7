"""What the JVM writes: kept away from the terminal unless `SHOAL_SPARK_LOG` names a level of log4j.

Why executors do not start is said by the log alone, so that part of it is written in any case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from shoal.engines.spark.installation import scratch_directory
from shoal.errors import InvalidInput

_LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")
_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_STDERR = 2
_FAILURE = re.compile(r"(?:Exception|Error)\b")
_ENDED = re.compile(r"Executor updated: (\S+)/\d+ is now (?:EXITED|FAILED|KILLED|LOST)(?: \((.*)\))?$", re.MULTILINE)
_SPEAKER = re.compile(r'^(?:Exception in thread "[^"]*" )?(?:[\w$]+\.)+[\w$]+: ')


def is_wanted() -> bool:
    """Whether the user asked to see the log."""
    return bool(os.environ.get("SHOAL_SPARK_LOG"))


def java_options() -> list[str]:
    """The options that set Spark's log up; without them Spark talks of its own set-up, too."""
    level = (os.environ.get("SHOAL_SPARK_LOG") or "OFF").upper()
    if level not in _LEVELS:
        raise InvalidInput(f"SHOAL_SPARK_LOG: {level} is not a log level (one of {', '.join(_LEVELS)})")
    told = {"shoal.spark.log": level, "shoal.spark.executors": level if is_wanted() else "INFO"}
    return [f"-Dlog4j2.configurationFile={_CONFIGURATION.as_uri()}", *(f"-D{k}={v}" for k, v in told.items())]


@contextmanager
def output() -> Iterator[IO[bytes] | int]:
    """Where a JVM's output goes: to our standard error if asked for, else into a file of the scratch directory."""
    if is_wanted():
        yield _STDERR
    else:
        with _file().open("ab") as file:
            yield file


def last_words() -> str | None:
    """The line of the JVM's output that says why it ended; None if there is none."""
    lines = [line.strip() for line in _output().splitlines()]
    messages = [line for line in lines if line and not line.startswith(("at ", "WARNING:", "Error:"))]
    failures = [line for line in messages if _FAILURE.search(line)]
    return _SPEAKER.sub("", (failures or messages)[0]) if messages else None


def length() -> int:
    """How much has been written so far."""
    return len(_output())


def ended_executors(since: int = 0) -> list[str]:
    """Why executors of the last application have ended, as the master of a standalone cluster told since then.

    Nothing is known of a session that others started.
    """
    ended = _ENDED.findall(_output(), since)
    return [why or "no reason was given" for application, why in ended if application == ended[-1][0]]


def _output() -> str:
    try:
        return _file().read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _file() -> Path:
    return scratch_directory() / "output"
