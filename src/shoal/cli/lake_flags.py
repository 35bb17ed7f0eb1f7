"""Flags of the commands on a lake: where it is, which pool and branch, and what is said of a commit."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.cli.flags import Flag, Parsed
from shoal.client.address import answers
from shoal.errors import InvalidInput

LAKE_FLAGS = (
    Flag(
        "lake",
        str,
        None,
        "where the lake is: a path, a URI of a store, or http(s):// of a service\n"
        "(env: SHOAL_LAKE; default ~/.local/share/shoal, or if there is none, a service at localhost:9867)",
        "URI",
    ),
    Flag("configdir", str, None, "directory of settings and credentials (default ~/.shoal)", "DIR"),
    Flag("q", bool, False, "print no messages and no warnings"),
    Flag("version", bool, False, "print the version"),
    Flag("help", bool, False, "print this help"),
    Flag("h", bool, False, "print this help"),
)
"""Accepted before the command as well as after it."""
USE_FLAGS = (
    Flag("use", str, None, "pool, pool@branch or pool@commit; @branch is one of the pool in use", "HEAD"),
    Flag("p", str, None, "the same as -use", "HEAD"),
)
COMMIT_FLAGS = (
    Flag("user", str, None, "author of the commit (env: SHOAL_USER; default user@machine)"),
    Flag("message", str, "", "message of the commit"),
    Flag("meta", str, None, "a value in ZSON to keep with the commit", "ZSON"),
)
DEFAULT_SERVICE = "http://localhost:9867"
FORCE_FLAG = Flag("f", bool, False, "do not ask")


def variable(name: str) -> str | None:
    """A variable of the environment, by what follows SHOAL_; the name that begins with ZED_ is the second choice."""
    return os.environ.get(f"SHOAL_{name}", os.environ.get(f"ZED_{name}"))


def lake_location(args: Parsed, opens: bool = True) -> str:
    """Where the lake is, by the flag, the environment, or the place for data of this user.

    One that is to be opened may be behind the service of this machine, if there is none in that place.
    """
    given = args["lake"] if "lake" in args.given else variable("LAKE")
    location = _default_location(opens) if given is None else given
    if not location:
        raise InvalidInput("no lake given (use -lake or set SHOAL_LAKE)")
    return location


def _default_location(opens: bool) -> str:
    data = os.environ.get("XDG_DATA_HOME")
    path = Path(data) / "shoal" if data else Path.home() / ".local" / "share" / "shoal"
    is_there = (path / "lake.zng").exists()
    return DEFAULT_SERVICE if opens and not is_there and answers(DEFAULT_SERVICE) else str(path)
