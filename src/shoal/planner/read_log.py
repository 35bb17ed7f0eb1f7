"""What a query reads, for a transaction that checks it again when it commits."""

from __future__ import annotations

from typing import Protocol

from shoal.ids import Id
from shoal.lake.keys import KeyRange


class ReadLog(Protocol):
    """Records what queries read. Called from several threads."""

    def on_branch(self, pool: Id, branch: str, commit: Id | None) -> None:
        """A query names a branch, and reads it at this commit."""

    def on_values(self, pool: Id, commit: Id | None, keys: KeyRange) -> None:
        """A query reads the values of a range of keys at a commit."""

    def on_journal(self, pool: Id | None, position: int) -> None:
        """A query reads metadata that the journal of a pool, or of the lake, had at a position or a later one."""
