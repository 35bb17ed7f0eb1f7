"""Flags that say what a long-running command logs, and where: a line of JSON for each thing that happens."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import TextIO

from shoal.cli.flags import Flag, Parsed
from shoal.errors import InvalidInput, StorageFailure
from shoal.local.manage import Level, Log

_LEVELS = {"debug": 10, "info": 20, "warn": 30, "error": 40}
_MODES = {"append": "a", "truncate": "w", "rotate": "a"}
_LARGEST, _KEPT = 5 << 20, 9
LOG_FLAGS = (
    Flag("log.level", str, "info", f"least level to log: {', '.join(_LEVELS)}", "LEVEL"),
    Flag("log.path", str, "stderr", "where to log: stderr, stdout or a file", "PATH"),
    Flag("log.filemode", str, "truncate", f"what to do with a file that is there: {', '.join(_MODES)}", "MODE"),
    Flag("log.devmode", bool, False, "accepted for scripts"),
)


@contextmanager
def open_log(args: Parsed) -> Iterator[Log]:
    """What takes log lines; with -q they go nowhere."""
    least, mode = args["log.level"].lower(), args["log.filemode"]
    if least not in _LEVELS:
        raise InvalidInput(f"invalid value {least!r} for flag -log.level (one of: {', '.join(_LEVELS)})")
    if mode not in _MODES:
        raise InvalidInput(f"invalid value {mode!r} for flag -log.filemode (one of: {', '.join(_MODES)})")
    handler = logging.NullHandler() if args["q"] else _handler(args["log.path"], mode)

    def log(level: Level, message: str, **fields: str | int) -> None:
        if _LEVELS[level] >= _LEVELS[least]:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"level": level, "ts": now, "msg": message, **fields}
            handler.handle(logging.makeLogRecord({"msg": "%s", "args": (json.dumps(line, ensure_ascii=False),)}))

    try:
        yield log
    finally:
        handler.close()


def _handler(path: str, mode: str) -> logging.Handler:
    streams: dict[str, TextIO] = {"stderr": sys.stderr, "stdout": sys.stdout}
    if path in streams:
        return logging.StreamHandler(streams[path])
    try:
        if mode == "rotate":
            return RotatingFileHandler(path, maxBytes=_LARGEST, backupCount=_KEPT, encoding="utf-8")
        return logging.FileHandler(path, _MODES[mode], encoding="utf-8")
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None
