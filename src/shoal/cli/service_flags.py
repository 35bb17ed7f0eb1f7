"""What long-running commands share: how a service authenticates its callers, what is logged where, their memory.

A log entry is one line of JSON.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import TextIO

from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.errors import StorageFailure
from shoal.local.manage import Level, Log
from shoal.service.auth.settings import AuthSettings, checked, is_loopback

AUTH_FLAGS = (
    Flag("auth.enabled", bool, None, "require a token (default true, but false on a loopback address)"),
    Flag("auth.audience", str, "", "audience that tokens of the identity provider must have", "AUDIENCE"),
    Flag("auth.clientid", str, "", "client id at the identity provider, as announced to clients", "ID"),
    Flag("auth.domain", str, "", "https URL of the identity provider, as announced to clients", "URL"),
    Flag("auth.issuer", str, "", "issuer that tokens must have (default the domain with a trailing slash)", "ISSUER"),
    Flag("auth.jwkspath", str, "", "JSON Web Key Set of the identity provider: a file or an https URL", "PATH"),
)


def auth_settings(args: Parsed, host: str) -> AuthSettings:
    """Authentication settings for a service that listens on a host; "" is all addresses.

    Any -auth flag turns authentication on, even on a loopback address.
    """
    names = ("audience", "clientid", "domain", "jwkspath", "issuer")
    texts = {name: args[f"auth.{name}"] for name in names}
    enabled = args["auth.enabled"]
    if enabled is None:
        enabled = not is_loopback(host) or any(texts.values())
    return checked(AuthSettings(enabled=enabled, **texts), host)


# ---- memory

_GARBAGE = 700
"""Objects that Python creates before it looks for garbage among them, unless it is told otherwise."""


def collect_garbage() -> None:
    """Look for garbage as often as Python usually does. Other commands put it off, for they end soon."""
    gc.set_threshold(_GARBAGE)


# ---- logs

_LEVELS = {"debug": 10, "info": 20, "warn": 30, "error": 40}
_MODES = {"append": "a", "truncate": "w", "rotate": "a"}
_LARGEST_FILE, _OLD_FILES = 5 << 20, 9
LOG_FLAGS = (
    Flag("log.level", str, "info", f"lowest level to log: {', '.join(_LEVELS)}", "LEVEL"),
    Flag("log.path", str, "stderr", "where to log: stderr, stdout or a file", "PATH"),
    Flag("log.filemode", str, "truncate", f"what to do if the log file exists: {', '.join(_MODES)}", "MODE"),
    Flag("log.devmode", bool, False, "accepted for scripts"),
)


@contextmanager
def open_log(args: Parsed) -> Iterator[Log]:
    """A function that writes log entries; with -q it discards them."""
    lowest, mode = args["log.level"].lower(), args["log.filemode"]
    if lowest not in _LEVELS:
        raise UsageError(f"invalid value {lowest!r} for flag -log.level (one of: {', '.join(_LEVELS)})")
    if mode not in _MODES:
        raise UsageError(f"invalid value {mode!r} for flag -log.filemode (one of: {', '.join(_MODES)})")
    handler = logging.NullHandler() if args["q"] else _handler(args["log.path"], mode)

    def log(level: Level, message: str, **fields: str | int) -> None:
        if _LEVELS[level] >= _LEVELS[lowest]:
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
            return RotatingFileHandler(path, maxBytes=_LARGEST_FILE, backupCount=_OLD_FILES, encoding="utf-8")
        return logging.FileHandler(path, _MODES[mode], encoding="utf-8")
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None
