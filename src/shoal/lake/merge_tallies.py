"""What a merge does in records.

Where a branch lands just as it is, that is what its own commits did, which is known or cheap to read: rows that its
compactions have moved are not looked at. Otherwise the records of the merge itself are compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from shoal.ids import Id
from shoal.lake.actions import Patch
from shoal.lake.change_feed import is_moving
from shoal.lake.commits import Commit
from shoal.lake.pools import Pool
from shoal.lake.primary_keys import key_reader
from shoal.lake.record_changes import ByRecord, RecordChange, record_changes
from shoal.lake.tallies import Tally, one_sided, rows_of, total
from shoal.model.values import Value
from shoal.model.zcode import encode


class ByBranch:
    """Counts what a merge of a branch does."""

    def __init__(self, pool: Pool, source: Id | None) -> None:
        self._pool, self._source = pool, source
        self._by_record = ByRecord(pool)
        self.base: Id | None = None
        """Where the branch left the one that it is merged into."""

    def __call__(self, landed: Patch) -> Tally:
        tally = one_sided(landed)
        if tally is None and landed == self._pool.snapshots.between(self.base, self._source):
            tally = self._of_commits(sum(rows_of(landed)))
        return self._by_record(landed) if tally is None else tally

    def _of_commits(self, rows: int) -> Tally | None:
        """The sum of the commits of the branch; None if it is cheaper to compare this many rows, or if nobody knows."""
        chain = list(self._pool.commits.walk(self._source, self.base))
        if not chain or chain[-1].parent != self.base:
            return None
        commits = [commit for commit in reversed(chain) if not is_moving(commit)]
        whole = total(commit.records for commit in commits)
        if whole is None or (not self._may_meet(whole) and not _meet(chain[::-1])):
            return whole
        return _net(self._pool, commits) if whole.added + whole.deleted + 2 * whole.updated < rows else None

    def _may_meet(self, whole: Tally) -> bool:
        """Whether what one commit deletes may come back, as an update, by another."""
        return bool(self._pool.config.settings.primary and whole.added and whole.deleted)


def _meet(chain: Sequence[Commit]) -> bool:
    """Whether some commit takes rows from objects that have rows of an earlier one, as far as descriptions tell."""
    fresh: set[Id] = set()
    for commit in chain:
        taken = {change.id for change in Patch(commit.actions).effects() if change.before is not None}
        has_fresh = not fresh.isdisjoint(taken)
        if is_moving(commit):
            fresh.update(o.id for o in commit.adds if has_fresh)
            continue
        if has_fresh:
            return True
        fresh.update(o.id for o in commit.adds)
    return False


def _net(pool: Pool, commits: Sequence[Commit]) -> Tally:
    """What commits have done in the end: what one adds and a later one deletes counts for nothing."""
    changes = (change for commit in commits for change in record_changes(pool, Patch(commit.actions)))
    if pool.config.settings.primary:
        return _net_by_key(pool, changes)
    counts: dict[Hashable, int] = {}
    for change in changes:
        for side, step in ((change.before, -1), (change.after, 1)):
            if side is not None:
                body = side.type, encode(side.type, side.data)
                counts[body] = counts.get(body, 0) + step
    return Tally(sum(n for n in counts.values() if n > 0), -sum(n for n in counts.values() if n < 0))


def _net_by_key(pool: Pool, changes: Iterable[RecordChange]) -> Tally:
    key_at = key_reader(pool.config.settings.primary)
    ends: dict[Hashable, tuple[Value | None, Value | None]] = {}
    for change in changes:
        side = change.after if change.before is None else change.before
        assert side is not None
        key = key_at(side)
        ends[key] = ends[key][0] if key in ends else change.before, change.after
    kinds = [(one is None, other is None) for one, other in ends.values() if not _is_same(one, other)]
    return Tally(kinds.count((True, False)), kinds.count((False, True)), kinds.count((False, False)))


def _is_same(one: Value | None, other: Value | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.type is other.type and encode(one.type, one.data) == encode(other.type, other.data)
