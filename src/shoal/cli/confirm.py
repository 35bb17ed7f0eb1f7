"""Asking before something is done that cannot be undone."""

from __future__ import annotations

import sys

from shoal.cli.flags import Parsed
from shoal.errors import InvalidInput


def confirm(args: Parsed, what: str) -> None:
    """Return if -f was given or somebody at a terminal says yes."""
    if args["f"]:
        return
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        raise InvalidInput(f"will not {what} unasked, and there is no terminal to ask on (to do it unasked: -f)")
    print(f"Are you sure you want to {what}? There is no going back... [y|n]", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidInput("operation canceled")


def _is_terminal(stream: object) -> bool:
    return stream is not None and bool(getattr(stream, "isatty", bool)())
