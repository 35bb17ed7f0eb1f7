"""Which commits a log lists: those after a time or that another commit does not know, and those that changed a field.

Whether a commit changed a field is mostly told by the descriptions of what it touches, which say how many values of
which types came and went. Records are read only where rows went and came as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shoal.errors import Unsupported
from shoal.ids import Id
from shoal.lake.actions import Patch
from shoal.lake.change_feed import is_moving
from shoal.lake.commits import Commit
from shoal.lake.history import ancestors
from shoal.lake.keys import Path, getter
from shoal.lake.moments import moment_of
from shoal.lake.pools import Pool
from shoal.lake.tallies import one_sided
from shoal.lazy import lazy
from shoal.model import types as t
from shoal.model.values import Value

if TYPE_CHECKING:
    from shoal.lake import record_changes
else:
    record_changes = lazy("shoal.lake.record_changes")

Keep = Callable[[Commit], bool]


# ---- since when


def after(pool: Pool, text: str) -> Keep:
    """Commits after a time, a date or a duration before now; or those that a commitish does not know."""
    moment = moment_of(pool, "since", text)
    if moment is not None:
        return lambda commit: commit.date > moment
    knows = _Known(pool, pool.resolve(text))
    return lambda commit: not knows(commit)


class _Known:
    """Whether a tip knows of a commit. Its ancestors are visited as far down as commits are asked for."""

    def __init__(self, pool: Pool, tip: Id | None) -> None:
        self._ancestors = ancestors(pool.commits, tip)
        self._next = next(self._ancestors, None)
        self._seen: set[Id] = set()

    def __call__(self, commit: Commit) -> bool:
        while self._next is not None and self._next.generation >= commit.generation:
            self._seen.add(self._next.id)
            self._next = next(self._ancestors, None)
        return commit.id in self._seen


# ---- what was changed


def changing(pool: Pool, path: Path) -> Keep:
    """Commits that added, deleted or updated records with a field; of updated ones its value has to be another."""
    return lambda commit: not is_moving(commit) and _has_changed(pool, commit, path)


def _has_changed(pool: Pool, commit: Commit, path: Path) -> bool:
    patch = Patch(commit.actions)
    told = _told(patch, path)
    if told is not None:
        return told
    try:
        return any(_concerns(change, path) for change in record_changes.record_changes(pool, patch))
    except Unsupported:
        return True  # what was purged may have had the field


def _told(patch: Patch, path: Path) -> bool | None:
    """What descriptions tell; None if records have to be read."""
    verdicts = {None if shape is None else has_field(shape, path) for shape in _shapes(patch)}
    if verdicts <= {False}:
        return False
    return True if True in verdicts and one_sided(patch) is not None else None


def _shapes(patch: Patch) -> Iterator[t.Type | None]:
    """The types of values that come or go; None for some that nobody has listed."""
    for before, after in patch.effects():
        counts = [None if o is None else o.shapes for o in (before, after)]
        if any(o is not None and o.shapes is None for o in (before, after)):
            yield None
            continue
        old, new = (dict(each or ()) for each in counts)
        yield from (shape for shape in old | new if old.get(shape, 0) != new.get(shape, 0))


def has_field(typ: t.Type, path: Path) -> bool | None:
    """Whether values of a type have a field; None if that depends on the value."""
    for name in path:
        under = typ.under
        if isinstance(under, t.Union | t.Map):
            return None
        fields = under.fields if isinstance(under, t.Record) else ()
        inner = next((field.type for field in fields if field.name == name), None)
        if inner is None:
            return False
        typ = inner
    return True


def _concerns(change: record_changes.RecordChange, path: Path) -> bool:
    one, other = (None if side is None else _field(side, path) for side in (change.before, change.after))
    if change.before is None or change.after is None:
        return one is not None or other is not None
    return one != other


def _field(value: Value, path: Path) -> tuple[Value | None] | None:
    """The value of a field, which may be lacking where a record above it is null; None if there is no such field."""
    field = getter(path)(value)
    return (field,) if field is not None or has_field(value.type, path) else None
