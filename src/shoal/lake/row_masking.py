"""Changes of row masks: hiding rows of an object, and bringing masks made at one commit to another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shoal.formats.columns.layouts import SHAPE
from shoal.ids import to_text
from shoal.lake import column_form, row_form
from shoal.lake.actions import Effect, Patch, State, patch_to
from shoal.lake.masks import Rows, hidden_rows, with_hidden
from shoal.lake.objects import DataObject, Form
from shoal.lake.pools import Pool

REWRITTEN_SHARE = 0.5
"""An object of which more rows would be hidden than this share is written again without them."""


def hide_rows(pool: Pool, o: DataObject, rows: Rows) -> Effect:
    """What hides more rows of an object, by their numbers; if all of them are hidden, the object goes."""
    return change_rows(pool, o, rows, np.zeros(0, np.int64))


def change_rows(pool: Pool, o: DataObject, hidden: Rows, shown: Rows) -> Effect:
    """What hides some rows of an object, and shows others again."""
    before = hidden_rows(pool.store, pool.prefix, o)
    after = np.setdiff1d(np.union1d(before, hidden), shown)
    if len(after) == o.rows:
        return Effect(o, None)
    if np.array_equal(before, after):
        return Effect(o, o)
    gone, back = np.setdiff1d(after, before), np.setdiff1d(before, after)
    return Effect(o, with_hidden(pool.store, pool.prefix, o, after, _shape_counts(pool, o, gone, back)))


def _shape_counts(pool: Pool, o: DataObject, gone: Rows, back: Rows) -> Rows | None:
    """How many values fewer of each shape there are."""
    if o.shapes is None:
        return None
    count = len(o.shapes)
    if count == 1:
        return np.array([len(gone) - len(back)], np.int64)
    indexes = _shape_indexes(pool, o)
    less = np.bincount(indexes[gone], minlength=count) - np.bincount(indexes[back], minlength=count)
    return less.astype(np.int64)


def _shape_indexes(pool: Pool, o: DataObject) -> Rows:
    """The index of the shape of each row, of hidden ones as well."""
    if o.form is Form.COLUMNS:
        codes: Rows = (
            column_form.read_columns(pool.store, pool.prefix, o, [SHAPE]).column(SHAPE).to_numpy().astype(np.int64)
        )
        codes[codes < 0] = -1 - codes[codes < 0]  # records that are null themselves
        return codes
    number = {shape: index for index, (shape, _) in enumerate(o.shapes or ())}
    values = row_form.read_unmasked(pool.store, pool.prefix, o)
    return np.fromiter((number[value.type] for value in values), np.int64, o.rows)


# ---- parts of objects


def only(pool: Pool, o: DataObject, rows: Rows) -> DataObject:
    """The object as if all but some rows were hidden, to read these; it is not stored."""
    others = np.setdiff1d(np.arange(o.rows, dtype=np.int64), rows)
    return with_hidden(None, pool.prefix, o, others, None)


def newly_hidden(pool: Pool, before: DataObject, after: DataObject) -> Rows:
    """The rows that are hidden after a change, and were not before it."""
    one, other = (hidden_rows(pool.store, pool.prefix, o) for o in (before, after))
    return np.setdiff1d(other, one)


def changed_parts(pool: Pool, patch: Patch) -> tuple[list[DataObject], list[DataObject]]:
    """What a patch takes away and what it brings, each as objects to read; of masks just the rows that change."""
    gone, come = list(patch.deletes), list(patch.adds)
    for mask in patch.masks:
        for parts, one, other in ((gone, mask.before, mask.object), (come, mask.object, mask.before)):
            rows = newly_hidden(pool, one, other)
            if len(rows):
                parts.append(only(pool, one, rows))
    return gone, come


# ---- at another commit


def translated(pool: Pool, patch: Patch, state: State) -> Patch:
    """A patch whose masks fit the objects as they are at another commit.

    Rows that both sides have hidden are hidden; the rows of one side and those of the other are hidden together. The
    deletion of an object includes rows that somebody else has hidden meanwhile, unless its rows live on elsewhere.
    What also adds objects may have replaced the rows that it hides. If somebody else has hidden one of them, both have
    changed one record, and new versions of both would stay: then the change stays as it was, and does not fit.
    """
    if not any(before is not None for before, _ in patch.effects()):
        return patch
    return patch_to(_translated(pool, patch, state))


def _translated(pool: Pool, patch: Patch, state: State) -> Iterator[Effect]:
    may_move = bool(patch.adds)
    for before, after in patch.effects():
        now = None if before is None else state.version(before)
        if before is None or now is None or now.is_same(before):
            yield Effect(before, after)
        elif after is not None:
            joined = join(pool, Effect(before, after), now, may_move)
            yield Effect(before, after) if joined is None else joined
        elif len(newly_hidden(pool, now, before)) or (may_move and len(newly_hidden(pool, before, now))):
            yield Effect(before, after)
        else:
            yield Effect(now, None)


def join(pool: Pool, change: Effect, now: DataObject, may_move: bool) -> Effect | None:
    """A change of the mask of an object, made on the object as it is now.

    None, if the rows that it hides may live on elsewhere, and one of them has been hidden meanwhile.
    """
    before, after = change
    assert before is not None
    assert after is not None
    hidden, shown = newly_hidden(pool, before, after), newly_hidden(pool, after, before)
    if may_move and len(hidden) and len(np.intersect1d(hidden, newly_hidden(pool, before, now))):
        return None
    return change_rows(pool, now, hidden, shown)


def three_way(pool: Pool, base: DataObject | None, one: DataObject, other: DataObject) -> DataObject:
    """An object with what both sides have hidden and shown since a base, or since it was whole; it is not stored."""
    store, name = pool.store, pool.prefix
    old = np.zeros(0, np.int64) if base is None else hidden_rows(store, name, base)
    ours, theirs = hidden_rows(store, name, one), hidden_rows(store, name, other)
    changed = np.setdiff1d(np.setxor1d(ours, theirs), old)
    rows = np.union1d(np.intersect1d(ours, theirs), changed)
    return with_hidden(None, name, one, rows, None)


def describe_masks(patch: Patch) -> str:
    """A message about the objects of which rows are hidden or shown: how many, and the first few of them."""
    masks = patch.masks
    if not masks:
        return ""
    total = sum(mask.object.hidden - mask.before.hidden for mask in masks)
    records = f"{total} record{'' if total == 1 else 's'}"
    lines = [f"deleted {records} in {len(masks)} data object{'' if len(masks) == 1 else 's'}", ""]
    for mask in masks[:10]:
        count = mask.object.hidden - mask.before.hidden
        lines.append(f"  {to_text(mask.object.id)} {count} record{'' if count == 1 else 's'}")
    return "\n".join([*lines, *(["  ..."] if len(masks) > 10 else [])]) + "\n"
