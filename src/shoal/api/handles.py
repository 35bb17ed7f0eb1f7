"""Handles: what users hold of a lake, a pool, a branch, a transaction or results.

Completion, which asks `dir`, shows the interface of a handle and nothing of its implementation.
"""

from __future__ import annotations

from collections.abc import Iterable


def public_names(kind: type, attributes: Iterable[str] = (), without: Iterable[str] = ()) -> list[str]:
    """The public names of a class and attributes of its instances, but for some that others than users need."""
    names = {*attributes, *(name for name in dir(kind) if not name.startswith("_"))}
    return sorted(names.difference(without))
