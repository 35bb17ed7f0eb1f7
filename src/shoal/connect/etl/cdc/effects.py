"""What changes come to, one after the other: for each table the rows to put in, and the keys to delete.

A large value that an update did not change is not in the event: PostgreSQL does not log it. In its place is a text that
says so, and the value stays what it was: in an earlier event, or in the pool. A changed key is a deletion and a
new row, which may lack the value as well; then it is that of the row with the old key.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from shoal.connect.etl.cdc.events import Change, Key
from shoal.model import types as t
from shoal.model.values import Value, record

_UNAVAILABLE = "__debezium_unavailable_value"
_BYTES = _UNAVAILABLE.encode()
_PLACEHOLDERS = frozenset((_UNAVAILABLE, _BYTES, base64.b64encode(_BYTES).decode()))


@dataclass(slots=True)
class Effect:
    """What becomes of a table."""

    clears: bool = False
    """Whether all rows go first."""
    rows: dict[Key, Value] = field(default_factory=dict)
    deletes: dict[Key, Value] = field(default_factory=dict)
    """Keys as records."""
    keys: dict[Key, Value] = field(default_factory=dict)
    """Those of the rows, as records, too."""
    lacking: dict[Key, Value] = field(default_factory=dict)
    """Rows that lack values, and the keys that the pool has these values under."""

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.clears or self.rows or self.deletes)

    @property
    def is_upsert(self) -> bool:
        """Whether it only puts in rows that are whole."""
        return bool(self.rows) and not (self.clears or self.deletes or self.lacking)


def effects_of(changes: Iterable[Change]) -> dict[str, Effect]:
    """What changes do, by table."""
    folds: dict[str, _Fold] = {}
    for change in changes:
        folds.setdefault(change.table, _Fold()).add(change)
    return {table: fold.effect for table, fold in folds.items()}


class _Fold:
    """Changes of one table, one after the other."""

    def __init__(self) -> None:
        self.effect = Effect()
        self._moved: tuple[int, Value, Value | None] | None = None
        """The last deletion: its place in the log, the key, and the row if it is known."""

    def add(self, change: Change) -> None:
        if change.op == "t":
            self.effect = Effect(clears=True)
            return
        assert change.key is not None
        if change.after is None:
            self._moved = change.lsn, change.key, self.effect.rows.get(change.key.data)
            self._delete(change.key)
            return
        source = self.effect.keys[change.key.data] = change.key
        if change.old_key is not None:
            self._moved = change.lsn, change.old_key, self.effect.rows.get(change.old_key.data)
            self._delete(change.old_key)
        before = self.effect.rows.get(change.key.data)
        if self._moved is not None and self._moved[0] == change.lsn:
            source, before = self._moved[1], self._moved[2]
        self._put(change.key, change.after, source, before)

    def _delete(self, key: Value) -> None:
        self.effect.keys[key.data] = key
        self.effect.rows.pop(key.data, None)
        if not self.effect.clears:
            self.effect.deletes[key.data] = key

    def _put(self, key: Value, row: Value, source: Value, before: Value | None) -> None:
        effect = self.effect
        if not lacks(row):
            effect.lacking.pop(key.data, None)
        elif before is not None:
            row = completed(row, before)
            if not lacks(row):
                effect.lacking.pop(key.data, None)
            elif source.data in effect.lacking:
                effect.lacking[key.data] = effect.lacking[source.data]
        elif not effect.clears:
            effect.lacking[key.data] = source
        effect.rows[key.data] = row
        effect.deletes.pop(key.data, None)


def complete(effect: Effect, rows_of: Callable[[Iterable[Value]], Mapping[Key, Value]]) -> None:
    """Put the values that rows lack into them, from the pool. A row that is not there leaves the text in place."""
    wanted = {key: source for key, source in effect.lacking.items() if key in effect.rows}
    if not wanted:
        return
    old = rows_of([*wanted.values(), *(effect.keys[key] for key in wanted)])
    for key, source in wanted.items():
        before = old.get(source.data, old.get(key))  # a changed key that came once more is there already
        if before is not None:
            effect.rows[key] = completed(effect.rows[key], before)


def lacks(row: Value) -> bool:
    """Whether a row lacks a value."""
    return any(_is_placeholder(data) for data in row.data)


def completed(row: Value, before: Value) -> Value:
    """A row with the values that it lacks, from the one before it."""
    fields = []
    assert isinstance(row.type, t.Record)
    for each, data in zip(row.type.fields, row.data, strict=True):
        old = before.field(each.name) if _is_placeholder(data) else None
        fields.append((each.name, Value(each.type, data) if old is None else old))
    return record(fields)


def _is_placeholder(data: object) -> bool:
    if isinstance(data, tuple) and len(data) == 1:
        data = data[0]
    return isinstance(data, (str, bytes)) and data in _PLACEHOLDERS
