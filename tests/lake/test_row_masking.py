"""Changes of masks: hiding and showing rows, and what becomes of that at another commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from tests.lake.conftest import Load, Read

from shoal.errors import Conflict, InvalidInput
from shoal.ids import Id
from shoal.lake import changes, masks, sessions
from shoal.lake.actions import Effect, Patch, patch_of, patch_to
from shoal.lake.commits import Note
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool, open_pool
from shoal.lake.row_masking import change_rows, changed_parts, hide_rows, newly_hidden, only
from shoal.lake.scans import read_object
from shoal.model.fields import NO_ID
from shoal.model.text import format_value
from shoal.testing.queries import parse_values

ME = Note("me")
TEN = " ".join(f"{{k:{k}}}" for k in range(10))


def rows(*numbers: int) -> masks.Rows:
    return np.array(numbers, np.int64)


def the_object(pool: Pool, branch: str = "main") -> DataObject:
    """The first object of a branch."""
    return next(iter(pool.snapshot(pool.resolve(branch)).objects()))


def written(pool: Pool, text: str) -> list[DataObject]:
    writer = pool.writer()
    for value in parse_values(text):
        writer.write(value)
    return writer.close()


def hiding(pool: Pool, o: DataObject, numbers: Iterable[int], new: str = "") -> Patch:
    """What hides rows, and adds objects."""
    return patch_to([hide_rows(pool, o, rows(*numbers)), *(Effect(None, x) for x in written(pool, new))])


def hide(pool: Pool, base: Id | None, numbers: Iterable[int], new: str = "", branch: str = "main") -> Id:
    """A commit that hides rows of the first object at a commit, as somebody who knows no later one makes it."""
    o = next(iter(pool.snapshot(base).objects()))
    return changes.rewrite(pool, branch, base, hiding(pool, o, numbers, new), ME, "delete")


def left(read: Read, commitish: str | Id | None = "main") -> list[int]:
    """The keys at a commit."""
    return [int(text[3:-1]) for text in read(commitish)]


def contents(pool: Pool, o: DataObject) -> list[str]:
    return [format_value(value) for value in read_object(pool.store, pool.prefix, pool.config.key, o)]


def test_hidden_rows_are_not_read_and_not_counted(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    commit = hide(pool, base, (0, 3))
    o = the_object(pool)
    assert (o.count, o.hidden, o.rows, o.shapes and o.shapes[0][1]) == (8, 2, 10, 8)
    assert left(read) == [1, 2, 4, 5, 6, 7, 8, 9]
    assert left(read, base) == list(range(10))
    assert left(read, open_pool(pool.store, pool.config).resolve()) == left(read, commit)


def test_an_object_without_a_row_that_is_left_goes(pool: Pool, load: Load) -> None:
    load("{k:1} {k:2}")
    assert hide_rows(pool, the_object(pool), rows(0, 1)).after is None


def test_what_is_hidden_already_changes_nothing(pool: Pool, load: Load) -> None:
    hide(pool, load(TEN), (4,))
    assert patch_to([hide_rows(pool, the_object(pool), rows(4))]).is_empty


@pytest.mark.parametrize("most_shapes", [256, 0], ids=["columns", "rows"])
def test_each_shape_is_counted(
    pool: Pool, load: Load, read: Read, monkeypatch: pytest.MonkeyPatch, most_shapes: int
) -> None:
    monkeypatch.setattr("shoal.lake.object_writer.MOST_SHAPES", most_shapes)
    base = load('{k:0} {k:1,s:"a"} {k:2} {k:3,s:"b"} {k:4,s:"c"} {k:5}')
    hide(pool, base, (1, 2, 4))
    o = the_object(pool)
    assert o.shapes is not None
    assert sorted(count for _, count in o.shapes) == [1, 2]
    assert o.count == 3
    assert read() == ["{k:0}", '{k:3,s:"b"}', "{k:5}"]
    back = change_rows(pool, o, rows(), rows(1, 2)).after
    assert back is not None
    assert sorted(count for _, count in back.shapes or ()) == [2, 3]


def test_the_parts_of_a_change_are_the_rows_that_change(pool: Pool, load: Load) -> None:
    hide(pool, load(TEN), (1,))
    before = the_object(pool)
    after = change_rows(pool, before, rows(2, 3), rows(1)).after
    assert after is not None
    gone, come = changed_parts(pool, patch_to([Effect(before, after)]))
    assert [contents(pool, o) for o in gone] == [["{k:2}", "{k:3}"]]
    assert [contents(pool, o) for o in come] == [["{k:1}"]]
    assert contents(pool, only(pool, before, rows(7))) == ["{k:7}"]


# ---- at another commit


def test_masks_of_both_sides_are_joined(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    hide(pool, base, (0, 1))
    hide(pool, base, (1, 2))
    assert left(read) == list(range(3, 10))
    assert the_object(pool).count == 7


def test_large_masks_are_joined(pool: Pool, load: Load, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "MOST_INSIDE", 4)
    base = load(TEN)
    hide(pool, base, (0, 1))
    hide(pool, base, (1, 2))
    assert left(read) == list(range(3, 10))
    mask = the_object(pool).mask
    assert mask is not None
    assert pool.store.size(masks.mask_key(pool.prefix, mask.id or NO_ID)) == mask.size


def test_a_deletion_of_an_object_includes_what_was_hidden_meanwhile(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    o = the_object(pool)
    hide(pool, base, (0,))
    changes.rewrite(pool, "main", base, patch_of((), (o,)), ME, "delete")
    assert left(read) == []


def test_an_object_that_was_rewritten_has_not_lost_what_was_hidden_meanwhile(
    pool: Pool, load: Load, read: Read
) -> None:
    """The new objects have the rows that somebody else has deleted, and do not say that they are the same."""
    base = load(TEN)
    o = the_object(pool)
    hide(pool, base, (0,))
    with pytest.raises(Conflict):
        changes.rewrite(pool, "main", base, patch_of(written(pool, TEN), (o,)), ME, "compact")
    assert left(read) == list(range(1, 10))


Side = Callable[[Pool, Id], Id]
UPDATE: Side = lambda pool, base: hide(pool, base, (2, 3), "{k:102} {k:103}")  # noqa: E731
DELETE: Side = lambda pool, base: hide(pool, base, (3, 4))  # noqa: E731
APART: Side = lambda pool, base: hide(pool, base, (5,), "{k:105}")  # noqa: E731


@pytest.mark.parametrize("first", [UPDATE, DELETE], ids=["an update", "a deletion"])
def test_a_record_that_was_changed_meanwhile_is_not_updated(pool: Pool, load: Load, read: Read, first: Side) -> None:
    """If both masks were joined, the new versions of both sides would stay."""
    base = load(TEN)
    first(pool, base)
    before = left(read)
    with pytest.raises(Conflict):
        UPDATE(pool, base)
    assert left(read) == before


def test_updates_of_other_records_of_one_object_are_joined(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    UPDATE(pool, base)
    APART(pool, base)
    assert left(read) == [0, 1, 4, 6, 7, 8, 9, 102, 103, 105]


def test_records_that_were_updated_meanwhile_are_not_deleted_in_their_old_version_alone(
    pool: Pool, load: Load, read: Read
) -> None:
    """Whoever deletes by a filter looks again at what is there."""
    base = load(TEN)
    UPDATE(pool, base)
    with pytest.raises(Conflict, match="has deleted or rewritten"):
        DELETE(pool, base)
    assert left(read) == [0, 1, 4, 5, 6, 7, 8, 9, 102, 103]


def test_branches_that_updated_one_record_do_not_merge(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    pool.names.create_branch("side", base)
    hide(pool, base, (3,), "{k:203}", "side")
    UPDATE(pool, base)
    with pytest.raises(Conflict, match="error merging"):
        changes.merge(pool, "side", "main", ME)
    assert left(read) == [0, 1, 4, 5, 6, 7, 8, 9, 102, 103]


def test_branches_that_updated_other_records_merge(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    pool.names.create_branch("side", base)
    hide(pool, base, (7,), "{k:207}", "side")
    UPDATE(pool, base)
    changes.merge(pool, "side", "main", ME)
    assert left(read) == [0, 1, 4, 5, 6, 8, 9, 102, 103, 207]


def test_a_revert_shows_just_the_rows_that_its_commit_has_hidden(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    first = hide(pool, base, (0, 1))
    hide(pool, pool.resolve(), (2,))
    changes.revert(pool, "main", first, ME)
    assert left(read) == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert newly_hidden(pool, next(iter(pool.snapshot(base).objects())), the_object(pool)).tolist() == [2]


def test_a_commit_that_hides_rows_is_picked_onto_a_branch_that_has_hidden_others(
    pool: Pool, load: Load, read: Read
) -> None:
    base = load(TEN)
    pool.names.create_branch("side", base)
    commit = hide(pool, base, (8,))
    hide(pool, base, (9,), branch="side")
    changes.cherry_pick(pool, "side", commit, ME)
    assert left(read, "side") == list(range(8))


def test_a_rebase_brings_masks_along(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    pool.names.create_branch("side", base)
    hide(pool, base, (8,), branch="side")
    hide(pool, pool.resolve("side"), (7,), branch="side")
    hide(pool, base, (0,))
    changes.rebase(pool, "side", "main")
    assert left(read, "side") == [*range(1, 7), 9]


def test_a_merge_of_an_object_that_was_picked_keeps_what_was_hidden(pool: Pool, load: Load, read: Read) -> None:
    """Both sides have added it, and each has hidden a row of it."""
    start = load("{k:50}")
    pool.names.create_branch("side", start)
    commit = load(TEN, "side")
    changes.cherry_pick(pool, "main", commit, ME)
    hide(pool, commit, (0,), branch="side")
    changes.rewrite(pool, "main", commit, hiding(pool, the_object(pool), (1,)), ME, "delete")
    changes.merge(pool, "side", "main", ME)
    assert left(read) == [2, 3, 4, 5, 6, 7, 8, 9, 50]
    assert pool.snapshot(pool.resolve()).count() == 2
    assert the_object(pool).count == 8


def test_masks_stay_where_branches_have_met_twice(pool: Pool, load: Load, read: Read) -> None:
    """The base of the second merge is what both merges made of both sides."""
    base = load(TEN)
    pool.names.create_branch("side", base)
    ours, theirs = hide(pool, base, (0,)), hide(pool, base, (1,), branch="side")
    pool.names.create_branch("old", ours)
    pool.names.create_branch("older", theirs)
    changes.merge(pool, "older", "main", ME)
    changes.merge(pool, "old", "side", ME)
    hide(pool, pool.resolve("side"), (2,), "{k:102}", "side")
    hide(pool, pool.resolve(), (3,), "{k:103}")
    try:
        changes.merge(pool, "side", "main", ME)
    except Conflict as e:
        pytest.fail(f"what both sides know was taken for a change of one: {e}")
    assert left(read) == [4, 5, 6, 7, 8, 9, 102, 103]


def test_a_pick_of_what_is_done_is_refused(pool: Pool, load: Load) -> None:
    base = load(TEN)
    pool.names.create_branch("side", base)
    commit = hide(pool, base, (8,))
    hide(pool, base, (8, 9), branch="side")
    with pytest.raises(InvalidInput, match="already"):
        changes.cherry_pick(pool, "side", commit, ME)


# ---- copies of sessions


def copies(pool: Pool, *patches: Patch) -> tuple[sessions.Session, list[sessions.Session]]:
    session = sessions.begin(pool, "main")
    return session, [sessions.stage(sessions.forked(session), patch) for patch in patches]


def test_copies_that_hid_rows_of_one_object_are_joined(pool: Pool, load: Load, read: Read) -> None:
    load(TEN)
    o = the_object(pool)
    session, made = copies(pool, hiding(pool, o, (0, 1)), hiding(pool, o, (1, 2)), hiding(pool, o, (5,), "{k:105}"))
    session = sessions.take_over(pool, session, made)
    assert sessions.take_over(pool, session, made[:1]) == session
    sessions.commit(pool, session, ME)
    assert left(read) == [3, 4, 6, 7, 8, 9, 105]


def test_copies_hide_more_than_the_session_has_hidden(pool: Pool, load: Load, read: Read) -> None:
    load(TEN)
    session = sessions.begin(pool, "main")
    session = sessions.stage(session, hiding(pool, the_object(pool), (0,)))
    (mask,) = session.staged.masks
    made = [sessions.stage(sessions.forked(session), hiding(pool, mask.object, (k,))) for k in (1, 2)]
    sessions.commit(pool, sessions.take_over(pool, session, made), ME)
    assert left(read) == list(range(3, 10))


def test_copies_that_updated_one_record_conflict(pool: Pool, load: Load) -> None:
    load(TEN)
    o = the_object(pool)
    session, made = copies(pool, hiding(pool, o, (0, 1), "{k:101}"), hiding(pool, o, (1, 2), "{k:102}"))
    with pytest.raises(Conflict, match="two copies"):
        sessions.take_over(pool, session, made)


def test_copies_that_wrote_one_object_again_conflict(pool: Pool, load: Load) -> None:
    """Each has the rows that it left: both together would have most of them twice."""
    load(TEN)
    o = the_object(pool)
    session, made = copies(pool, patch_of(written(pool, "{k:1}"), (o,)), patch_of(written(pool, "{k:2}"), (o,)))
    with pytest.raises(Conflict, match="two copies"):
        sessions.take_over(pool, session, made)


def test_what_copies_did_is_committed_over_masks_of_others(pool: Pool, load: Load, read: Read) -> None:
    base = load(TEN)
    session, made = copies(pool, hiding(pool, the_object(pool), (0,)), hiding(pool, the_object(pool), (2,)))
    hide(pool, base, (9,))
    sessions.commit(pool, sessions.take_over(pool, session, made), ME)
    assert left(read) == [1, 3, 4, 5, 6, 7, 8]
