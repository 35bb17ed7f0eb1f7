"""Patches at another commit, row by row: what one takes away and brings, wherever the rows are by now.

Rows are compared by identity. So what compactions have moved meanwhile, on either side, is not a change: a row is
hidden where it is now, and one that comes back comes in the object that it was first in, if the one that it was last
in is gone. A compaction itself takes its rows along as far as they are where it found them, without those that
somebody else has deleted; rows that another compaction has moved stay there.

Only changes conflict; `row_conflicts` says which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from shoal.errors import Conflict
from shoal.ids import Id, to_text
from shoal.lake.actions import Effect, Patch, patch_to
from shoal.lake.identities import NO_KEYS, Identities, Keys, is_in
from shoal.lake.masks import Rows, shown_rows
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.row_conflicts import Sides, leave_deleted, leave_out, require_unchanged
from shoal.lake.row_masking import change_rows
from shoal.lake.row_patches import Located, Part, RowPatch, State, hull_of, is_move, row_patch
from shoal.lake.tracing import origin_objects

__all__ = ["Sides", "is_move", "translated"]

NO_ROWS: Rows = np.zeros(0, np.int64)


def translated(
    pool: Pool, patch: Patch, state: State, what: str, sides: Sides | None, tips: Iterable[Id | None] = ()
) -> Patch:
    """What is left to do of a patch in a state; a Conflict, if both sides have changed a row.

    Without `sides` it is not asked who has changed what. Objects that rows were first in are looked for in the history
    of `tips`.
    """
    known = Identities(pool.store, pool.prefix)
    rows = row_patch(pool, known, patch)
    there = Located(known, state, hull_of(e for change in patch.effects() for e in change if e), rows)
    missing = rows.lost[~is_in(rows.lost, there.keys)]
    if len(missing) and sides is not None:
        require_unchanged(pool, rows, there, missing, what, sides)
    if sides is not None and sides.parted is not None:
        leave_out(rows, sides.parted, what)
    if sides is not None and sides.is_merge:
        leave_deleted(pool, rows, there, sides)
    return _Translation(pool, patch, state, rows, there, what, tuple(tips)).patch()


@dataclass
class _Translation:
    """What a patch is in a state."""

    pool: Pool
    original: Patch
    state: State
    rows: RowPatch
    there: Located
    what: str
    tips: tuple[Id | None, ...]
    objects: dict[Id, DataObject] = field(default_factory=dict)
    """Those that change or come, as they are: in the state, or else as somebody has described them."""
    hidden: dict[Id, list[Rows]] = field(default_factory=lambda: defaultdict(list))
    shown: dict[Id, list[Rows]] = field(default_factory=lambda: defaultdict(list))

    def patch(self) -> Patch:
        """What is left to do."""
        new = self.rows.new[~is_in(self.rows.new, self.there.keys)]
        taken, brought = [NO_KEYS], [NO_KEYS]
        for part in self.rows.come:
            keys = self._come(part, new)
            taken.append(keys[~is_in(keys, new)])
            brought.append(keys[is_in(keys, new)])
        left = self._hide(np.unique(np.concatenate([self.rows.lost, *taken])))
        rest = new[~is_in(new, np.unique(np.concatenate(brought)))]
        self._bring_back(np.union1d(left, rest))
        return patch_to(self._effects())

    def _come(self, part: Part, new: Keys) -> Keys:
        """Rows of an object that come, because they are new or because the object takes them along; their keys."""
        owners, keys = part.owned
        moves = is_in(keys, self.there.keys) & ~is_in(keys, self.rows.new)
        may_come = is_in(keys, new)
        if self._is_where_it_was(keys[moves]):
            may_come |= moves
        is_whole = np.ones(len(part.rows), bool)
        is_whole[owners[~may_come]] = False
        if not is_whole.any():
            return NO_KEYS
        self._add(part.object, part.rows[is_whole])
        chosen: Keys = np.unique(keys[is_whole[owners]])
        return chosen

    def _is_where_it_was(self, moved: Keys) -> bool:
        """Whether rows are still in objects that the patch takes them from."""
        sources = {part.object.id for part in self.rows.gone}
        return all(o.id in sources for o, _ in self.there.with_any(np.unique(moved)))

    def _add(self, o: DataObject, rows: Rows) -> None:
        """Rows of an object are to be visible, those of the state as well."""
        if o.id not in self.objects:
            self.objects[o.id] = self.state.version(o) or o
        self.shown[o.id].append(rows)

    def _hide(self, keys: Keys) -> Keys:
        """Hide the rows that have some identities. Others that these rows have absorbed are left over."""
        left = [NO_KEYS]
        for o, rows in self.there.with_any(keys):
            self.objects[o.id] = o
            self.hidden[o.id].append(rows)
            if o.lineage is not None:
                every = self.rows.known.owned(o, rows).keys
                left.append(every[~is_in(every, keys)])
        return np.unique(np.concatenate(left))

    def _bring_back(self, keys: Keys) -> None:
        """Rows come in the objects that they were first in."""
        if not len(keys):
            return
        wanted = dict(self.rows.known.by_object(keys))
        first = {e.id: e for change in self.original.effects() for e in change if e is not None and e.lineage is None}
        first |= origin_objects(self.pool, self.tips, wanted.keys() - first.keys())
        for ident, rows in wanted.items():
            if ident not in first:
                raise Conflict(
                    f"{self.what}: records of data object {to_text(ident)} were merged with others, and that object is "
                    "gone with its branch or with old history (delete the merged records: shoal delete -where)"
                )
            self._add(first[ident], rows)

    def _effects(self) -> Iterator[Effect]:
        for ident, o in self.objects.items():
            hidden, shown = (_joined(rows.get(ident, ())) for rows in (self.hidden, self.shown))
            now = self.state.version(o)
            if now is not None:
                yield change_rows(self.pool, now, hidden, shown)
                continue
            visible = shown_rows(self.pool.store, self.pool.prefix, o)
            if np.array_equal(visible, shown):
                yield Effect(None, o)
            else:
                come = change_rows(self.pool, o, np.setdiff1d(visible, shown), np.setdiff1d(shown, visible))
                yield Effect(None, come.after)


def _joined(rows: Iterable[Rows]) -> Rows:
    joined: Rows = np.unique(np.concatenate([NO_ROWS, *rows]))
    return joined
