"""Where records go: a branch of a pool."""

from __future__ import annotations

from shoal.api.commitish import parse_head
from shoal.model.node import frozen


@frozen
class Place:
    """A branch of a pool, as it is named in settings."""

    pool: str
    branch: str

    def __str__(self) -> str:
        return f"{self.pool}@{self.branch}"


def parse_place(text: str) -> Place:
    """A place such as `staging` or `staging@dev`."""
    return Place(*parse_head(text))
