"""Moving data out of commits: a load or a transaction compacts it, where a branch has many objects within commits."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.ids import Id
from shoal.lake.commits import Note
from shoal.lake.objects import in_order
from shoal.lake.pools import Pool
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.lake import rewriting
else:
    rewriting = lazy("shoal.lake.rewriting")

MOST_INLINE = 64
"""Objects within commits that a branch has at most, for long: each is decoded by itself."""


def roll_up(pool: Pool, branch: str, commit: Id, author: str) -> None:
    """Compact what lies within commits, if there is much of it. It is looked for when a checkpoint is due.

    A failure is not an error: the data is there, and a later commit tries again.
    """
    if not pool.config.settings.inline or not pool.snapshots.is_due(pool.commits.read(commit)):
        return
    with suppress(ShoalError):
        inline = [o for o in pool.snapshot(commit).objects() if o.inline is not None]
        if len(inline) < MOST_INLINE:
            return
        size = pool.config.object_size
        for run in rewriting.choose_runs(pool.config.key, inline, size):
            note = Note(author, f"moved {len(run)} small commits into data objects")
            for _ in rewriting.compact_runs(pool, branch, commit, [in_order(pool.config.key, run)], note):
                pass
