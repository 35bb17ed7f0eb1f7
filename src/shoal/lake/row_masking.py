"""Changes of row masks: hiding and showing rows of an object, and reading just some of them."""

from __future__ import annotations

import numpy as np

from shoal.formats.columns.layouts import SHAPE
from shoal.ids import to_text
from shoal.lake import column_form, row_form
from shoal.lake.actions import Effect, Patch
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
    is_other = np.ones(o.rows, bool)
    is_other[rows] = False
    return with_hidden(None, pool.prefix, o, np.flatnonzero(is_other), None)


def newly_hidden(pool: Pool, before: DataObject, after: DataObject) -> Rows:
    """The rows that are hidden after a change, and were not before it."""
    one, other = (hidden_rows(pool.store, pool.prefix, o) for o in (before, after))
    is_new = np.zeros(after.rows, bool)
    is_new[other] = True
    is_new[one] = False
    return np.flatnonzero(is_new)


def changed_parts(pool: Pool, patch: Patch) -> tuple[list[DataObject], list[DataObject]]:
    """What a patch takes away and what it brings, each as objects to read; of masks just the rows that change."""
    gone, come = list(patch.deletes), list(patch.adds)
    for mask in patch.masks:
        for parts, one, other in ((gone, mask.before, mask.object), (come, mask.object, mask.before)):
            rows = newly_hidden(pool, one, other)
            if len(rows):
                parts.append(only(pool, one, rows))
    return gone, come


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
