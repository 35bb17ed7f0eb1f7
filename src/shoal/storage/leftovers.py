"""What crashed writers leave beside the objects of a store. Only directories have such files."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Sweeps(Protocol):
    """A store that crashes can leave things in."""

    def sweep(self, older_than: float) -> int:
        """Remove what crashes left behind, of at least this age in seconds; how many files that were."""


def sweep(store: object, older_than: float) -> int:
    """Remove what crashes left in a store; nothing where that cannot be."""
    return store.sweep(older_than) if isinstance(store, Sweeps) else 0
