"""Heads: the pool and commitish that a program without a source reads."""

from __future__ import annotations

from shoal.errors import InvalidInput

_MAIN = "main"


def parse_head(text: str) -> tuple[str, str]:
    """Parse `pool@commitish`; without a commitish, it is the branch main."""
    pool, _, commitish = text.partition("@")
    if not pool:
        raise InvalidInput(f"invalid commitish: {text!r} (such as logs@main)")
    return pool, commitish or _MAIN
