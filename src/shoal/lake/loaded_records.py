"""What was loaded for records of which a compaction with a merge policy has made others.

A compaction names the objects that it has merged, and their data stays as long as history does. So the records behind
a merged one are those of the merged objects that are in its group, and what is behind these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Set
from functools import cached_property

from shoal.ids import Id
from shoal.lake.commits import Commit
from shoal.lake.history import ancestors
from shoal.lake.names import Warn
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.scans import read_object, unless_purged
from shoal.model.values import Value

GroupKey = Callable[[Value], Hashable]
"""What is the same for all records that a policy makes one of."""


class LoadedRecords:
    """The records that were loaded, behind objects at the commits of a history."""

    def __init__(self, pool: Pool, tip: Id | None, group: GroupKey, warn: Warn | None = None) -> None:
        self._pool, self._tip, self._group, self._warn = pool, tip, group, warn

    @cached_property
    def _compactions(self) -> dict[Id, Commit]:
        """The compactions by the merged objects that they made, as far as history goes back."""
        return {
            o.id: commit
            for commit in ancestors(self._pool.commits, self._tip)
            if commit.merged is None and commit.deletes
            for o in commit.adds
            if o.merged is not None
        }

    def behind(self, o: DataObject, wanted: Set[Hashable] | None = None) -> Iterator[Value]:
        """What was loaded for the records of an object: all of them, or those of some groups."""
        records = self._read(o)
        compaction = None if o.merged is None else self._compactions.get(o.id)
        if compaction is None:
            yield from (value for value in records if wanted is None or self._group(value) in wanted)
            return
        groups = {self._group(value) for value in records}
        groups = groups if wanted is None else groups & wanted
        if groups:
            for source in compaction.deletes:
                yield from self.behind(source, groups)

    def _read(self, o: DataObject) -> Iterator[Value]:
        pool = self._pool
        purged = frozenset(pool.refs().purged())
        return unless_purged(pool, o, read_object(pool.store, pool.prefix, pool.config.key, o), self._warn, purged)
