"""Flags of the commands on a lake: its location, the pool and branch in use, the note of a commit."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.cli.flags import Flag, Parsed, UsageError
from shoal.client.address import answers

LAKE_FLAGS = (
    Flag(
        "lake",
        str,
        None,
        "location of the lake: a path, the URI of a store, or the http(s) URL of a service\n"
        "(env: SHOAL_LAKE; default ~/.local/share/shoal, or if that does not exist, a service at localhost:9867)",
        "URI",
    ),
    Flag("configdir", str, None, "directory for settings and credentials (default ~/.shoal)", "DIR"),
    Flag("q", bool, False, "do not print messages and warnings"),
    Flag("v", bool, False, "print the details of errors"),
    Flag("version", bool, False, "print the version"),
    Flag("help", bool, False, "print this help"),
    Flag("h", bool, False, "print this help"),
)
"""Accepted before the command as well as after it."""
USE_FLAGS = (
    Flag(
        "use", str, None, "pool, pool@branch or pool@commit to work on; @branch is a branch of the pool in use", "HEAD"
    ),
    Flag("p", str, None, "short for -use", "HEAD"),
)
COMMIT_FLAGS = (
    Flag("user", str, None, "author of the commit (env: SHOAL_USER; default user@machine)"),
    Flag("message", str, "", "message of the commit"),
    Flag("meta", str, None, "metadata of the commit, a value in ZSON", "ZSON"),
)
KEYED_FLAGS = (
    Flag(
        "on-conflict",
        str,
        None,
        "what becomes of records that others change meanwhile: fail, ours, theirs or newest:FIELD (default fail)",
        "RULE",
    ),
)
DEFAULT_SERVICE = "http://localhost:9867"
FORCE_FLAG = Flag("f", bool, False, "do not ask for confirmation")


def variable(name: str) -> str | None:
    """The environment variable SHOAL_name, or else ZED_name."""
    return os.environ.get(f"SHOAL_{name}", os.environ.get(f"ZED_{name}"))


def lake_location(args: Parsed, opens: bool = True) -> str:
    """The location of the lake: that of the flag, of the environment, or the default.

    With `opens`, if there is no lake at the default location, a service on this machine is used instead.
    """
    setting = args["lake"] if "lake" in args.given else variable("LAKE")
    location = _default_location(opens) if setting is None else setting
    if not location:
        raise UsageError("no lake given (use -lake or set SHOAL_LAKE)")
    return location


def _default_location(opens: bool) -> str:
    data = os.environ.get("XDG_DATA_HOME")
    path = Path(data) / "shoal" if data else Path.home() / ".local" / "share" / "shoal"
    has_lake = (path / "lake.zng").exists()
    return DEFAULT_SERVICE if opens and not has_lake and answers(DEFAULT_SERVICE) else str(path)
