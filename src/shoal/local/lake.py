"""Lakes in stores that this process reaches, by their URI. Importing this module loads all implementations of verbs."""

from __future__ import annotations

from typing import Any

from shoal.lake.lake import create_at, open_at
from shoal.local import commits, history, loads, maintenance, pools, queries, transactions
from shoal.local.executor import StoreExecutor, stored, whole

__all__ = ["IMPLEMENTATIONS", "LocalLake", "create_local", "open_local", "stored", "whole"]

IMPLEMENTATIONS = (commits, history, loads, maintenance, pools, queries, transactions)
"""The modules that implement verbs."""


class LocalLake(StoreExecutor):
    """A lake in a store that this process can reach."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open_local, (self.uri,)


def open_local(uri: str) -> LocalLake:
    """The lake at a path or URI."""
    return LocalLake(open_at(uri))


def create_local(uri: str) -> LocalLake:
    """A new lake at a path or URI."""
    return LocalLake(create_at(uri))
