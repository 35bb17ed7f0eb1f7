"""Heads: the pool and commitish that a program without a source reads."""

from __future__ import annotations

from shoal.errors import InvalidInput

_MAIN = "main"


def parse_head(text: str) -> tuple[str, str]:
    """The pool and the commitish in `pool@commitish`; without the latter it is the main branch."""
    pool, _, commitish = text.partition("@")
    if not pool:
        raise InvalidInput(f"invalid commitish: {text!r} (such as logs@main)")
    return pool, commitish or _MAIN
