"""Heads, the pool and commitish that a program without a source reads; and positions in a change feed."""

from __future__ import annotations

from shoal.errors import InvalidInput
from shoal.ids import Id, parse

_MAIN = "main"


def parse_head(text: str) -> tuple[str, str]:
    """Parse `pool@commitish`; without a commitish, it is the branch main."""
    pool, _, commitish = text.partition("@")
    if not pool:
        raise InvalidInput(f"invalid commitish: {text!r} (such as logs@main)")
    return pool, commitish or _MAIN


def split_position(text: str) -> tuple[Id, int] | None:
    """The commit and the number of a position in a change feed, `COMMIT/NUMBER`; None for anything else."""
    commit, slash, number = text.rpartition("/")
    if not slash or not number.isdecimal():
        return None
    try:
        return parse(commit), int(number)
    except InvalidInput:
        return None
