"""Delete, revert, merge, rebase: what they do, and what they refuse when others were first."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from tests.lake.conftest import Load, Read

from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from shoal.ids import Id, new, to_text
from shoal.lake import changes, rewriting
from shoal.lake.actions import patch_of
from shoal.lake.commits import Commits, Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import Lake
from shoal.lake.objects import DataObject
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.model.values import int64, record

ME = Note("me")


def ids(pool: Pool, branch: str = "main") -> list[Id]:
    return [o.id for o in pool.snapshot(pool.resolve(branch)).objects()]


def test_a_load_is_one_commit_on_its_branch(pool: Pool, load: Load, read: Read) -> None:
    first = load("{k:2} {k:1}")
    second = load("{k:3}")
    assert read() == ["{k:1}", "{k:2}", "{k:3}"]
    assert [c.id for c in pool.log(pool.resolve())] == [second, first]
    assert pool.commits.read(second).parent == first


def test_an_empty_load_is_refused(load: Load, pool: Pool) -> None:
    with pytest.raises(InvalidInput, match="empty transaction"):
        load("")
    assert pool.resolve() is None


def test_an_operation_that_is_repeated_by_its_id_happens_once(pool: Pool, load: Load, read: Read) -> None:
    op = new()
    first = load("{k:1}", op=op)
    load("{k:2}")
    assert load("{k:1}", op=op) == first
    assert read() == ["{k:1}", "{k:2}"]


def test_every_commit_stays_readable(load: Load, read: Read, pool: Pool) -> None:
    first = load("{k:1}")
    load("{k:2}")
    changes.delete(pool, "main", ids(pool)[:1], ME)
    assert read(first) == ["{k:1}"]
    assert read() == ["{k:2}"]


def test_delete_names_what_is_not_there(pool: Pool, load: Load) -> None:
    load("{k:1}")
    unknown = new()
    with pytest.raises(NotFound, match=to_text(unknown)):
        changes.delete(pool, "main", [unknown], ME)


def test_two_deletes_of_one_object_conflict_and_name_the_winner(pool: Pool, load: Load) -> None:
    base = load("{k:1}")
    (o,) = pool.snapshot(base).objects()
    winner = changes.delete(pool, "main", [o.id], ME)
    with pytest.raises(Conflict, match=to_text(winner)) as found:
        changes.rewrite(pool, "main", base, patch_of((), (o,)), ME, "delete")
    assert to_text(o.id) in str(found.value)


def test_a_delete_goes_onto_the_loads_of_others(pool: Pool, load: Load, read: Read) -> None:
    base = load("{k:1}")
    (o,) = pool.snapshot(base).objects()
    load("{k:2}")
    changes.rewrite(pool, "main", base, patch_of((), (o,)), ME, "delete")
    assert read() == ["{k:2}"]


def test_revert_takes_back_a_load_and_a_revert(pool: Pool, load: Load, read: Read) -> None:
    a = load("{k:1}")
    load("{k:2}")
    back = changes.revert(pool, "main", a, ME)
    assert read() == ["{k:2}"]
    changes.revert(pool, "main", back, ME)
    assert read() == ["{k:1}", "{k:2}"]


def test_revert_of_what_was_compacted_takes_its_rows_out_of_the_new_object(pool: Pool, load: Load, read: Read) -> None:
    a = load("{k:1}")
    load("{k:2}")
    rewriting.compact(pool, "main", ids(pool), ME)
    back = changes.revert(pool, "main", a, ME)
    assert read() == ["{k:2}"]
    rewriting.compact(pool, "main", [*ids(pool), *pool_adds(pool, load("{k:3}"))], ME)
    changes.revert(pool, "main", back, ME)
    assert read() == ["{k:1}", "{k:2}", "{k:3}"]


def pool_adds(pool: Pool, commit: Id) -> list[Id]:
    return [o.id for o in pool.commits.read(commit).adds]


def test_revert_of_an_unknown_commit_is_not_found(pool: Pool) -> None:
    with pytest.raises(NotFound, match="commit not found"):
        changes.revert(pool, "main", new(), ME)


def test_merges_bring_what_is_new_each_time(pool: Pool, load: Load, read: Read) -> None:
    load("{k:0}")
    pool.names.create_branch("child", pool.resolve())
    load("{k:1}", "child")
    merged = changes.merge(pool, "child", "main", ME)
    assert pool.commits.read(merged).merged == pool.resolve("child")
    load("{k:2}")
    load("{k:3}", "child")
    changes.merge(pool, "child", "main", ME)
    assert read() == ["{k:0}", "{k:1}", "{k:2}", "{k:3}"]
    with pytest.raises(InvalidInput, match="nothing to merge"):
        changes.merge(pool, "child", "main", ME)
    changes.merge(pool, "main", "child", ME)
    assert read("child") == read()


def test_merging_a_deletion_deletes(pool: Pool, load: Load, read: Read) -> None:
    load("{k:0}")
    load("{k:1}")
    pool.names.create_branch("child", pool.resolve())
    changes.delete(pool, "child", ids(pool)[:1], ME)
    changes.merge(pool, "child", "main", ME)
    assert read() == ["{k:1}"]


def test_what_both_sides_have_compacted_is_no_conflict(pool: Pool, load: Load, read: Read) -> None:
    first = load("{k:0}")
    load("{k:1}")
    pool.names.create_branch("child", pool.resolve())
    rewriting.compact(pool, "child", ids(pool), ME)
    rewriting.compact(pool, "main", ids(pool), ME)
    with pytest.raises(InvalidInput, match="nothing to merge"):
        changes.merge(pool, "child", "main", ME)
    changes.revert(pool, "child", first, ME)
    load("{k:2}", "child")
    changes.merge(pool, "child", "main", ME)
    assert read() == ["{k:1}", "{k:2}"]
    with pytest.raises(InvalidInput, match="nothing to merge"):
        changes.merge(pool, "child", "main", ME)


def merged_both_ways(pool: Pool, load: Load) -> None:
    """Two branches that are merged into each other at the same time."""
    load("{k:0}")
    load("{k:1}")
    pool.names.create_branch("child", pool.resolve())
    load("{k:2}")
    changes.delete(pool, "child", ids(pool, "child")[:1], ME)
    load("{k:3}", "child")
    pool.names.create_branch("old", pool.resolve("child"))
    changes.merge(pool, "main", "child", ME)
    changes.merge(pool, "old", "main", ME)


def test_branches_that_were_merged_into_each_other_merge_again(pool: Pool, load: Load, read: Read) -> None:
    merged_both_ways(pool, load)
    assert read() == read("child") == ["{k:1}", "{k:2}", "{k:3}"]
    load("{k:4}", "child")
    changes.merge(pool, "child", "main", ME)
    assert read() == ["{k:1}", "{k:2}", "{k:3}", "{k:4}"]


def test_what_was_deleted_after_such_a_merge_does_not_come_back(pool: Pool, load: Load, read: Read) -> None:
    merged_both_ways(pool, load)
    for key in (2, 3):
        (o,) = [o for o in pool.snapshot(pool.resolve()).objects() if o.min.data == key]
        changes.delete(pool, "main", [o.id], ME)
    load("{k:4}", "child")
    changes.merge(pool, "child", "main", ME)
    assert read() == ["{k:1}", "{k:4}"]


def test_what_one_side_deletes_after_such_a_merge_is_deleted(pool: Pool, load: Load, read: Read) -> None:
    merged_both_ways(pool, load)
    (o,) = [o for o in pool.snapshot(pool.resolve("child")).objects() if o.min.data == 2]
    changes.delete(pool, "child", [o.id], ME)
    changes.merge(pool, "child", "main", ME)
    assert read() == ["{k:1}", "{k:3}"]
    rewriting.compact(pool, "child", ids(pool, "child"), ME)
    changes.merge(pool, "child", "main", ME)
    assert read() == ["{k:1}", "{k:3}"]


def test_rebase_leaves_out_merges_of_the_branch_it_goes_onto(pool: Pool, load: Load, read: Read) -> None:
    load("{k:0}")
    pool.names.create_branch("child", pool.resolve())
    load("{k:1}", "child")
    load("{k:2}")
    changes.merge(pool, "main", "child", ME)
    load("{k:3}", "child")
    (o,) = [o for o in pool.snapshot(pool.resolve()).objects() if o.min.data == 2]
    changes.delete(pool, "main", [o.id], ME)
    changes.rebase(pool, "child", "main")
    assert read("child") == ["{k:0}", "{k:1}", "{k:3}"]


def test_a_branch_of_an_empty_branch_merges(pool: Pool, load: Load, read: Read) -> None:
    pool.names.create_branch("child", None)
    load("{k:1}", "child")
    load("{k:2}")
    changes.merge(pool, "child", "main", ME)
    assert read() == ["{k:1}", "{k:2}"]


def test_rebase_replays_the_own_commits_with_their_notes(pool: Pool, load: Load, read: Read) -> None:
    load("{k:0}")
    pool.names.create_branch("child", pool.resolve())
    one, two = load("{k:1}", "child"), load("{k:2}", "child")
    load("{k:3}")
    tip = changes.rebase(pool, "child", "main")
    assert read("child") == ["{k:0}", "{k:1}", "{k:2}", "{k:3}"]
    log = list(pool.log(tip))
    assert [c.note.message for c in log[:2]] == [pool.commits.read(i).note.message for i in (two, one)]
    assert log[2].id == pool.resolve("main")
    assert read() == ["{k:0}", "{k:3}"]


def test_rebase_after_a_merge_replays_only_what_came_since(pool: Pool, load: Load, read: Read) -> None:
    load("{k:0}")
    pool.names.create_branch("child", pool.resolve())
    load("{k:1}", "child")
    changes.merge(pool, "child", "main", ME)
    load("{k:2}", "child")
    tip = changes.rebase(pool, "child", "main")
    assert read("child") == ["{k:0}", "{k:1}", "{k:2}"]
    assert next(pool.log(tip)).parent == pool.resolve("main")


def test_rebase_over_a_merge_reads_as_many_commits_as_there_are(made: Lake) -> None:
    few, many = (commits_read(made, count) for count in (20, 80))
    assert many < 5 * few


def commits_read(made: Lake, count: int) -> int:
    """How often a rebase asks for a commit, of a branch with a merge and some loads onto one with as many."""
    pool = made.create_pool(PoolConfig(new(), f"p{count}", parse_sort_key("k")))
    objects = (pool_objects(pool, k) for k in range(2 * count + 2))
    pool.committer.commit(changes.load("main", next(objects), ME))
    for name in ("child", "side"):
        pool.names.create_branch(name, pool.resolve())
    pool.committer.commit(changes.load("side", next(objects), ME))
    changes.merge(pool, "side", "child", ME)
    for _ in range(count):
        for name in ("child", "main"):
            pool.committer.commit(changes.load(name, next(objects), ME))
    with patch.object(Commits, "read", autospec=True, side_effect=Commits.read) as read:
        changes.rebase(pool, "child", "main")
    assert len(list(pool.log(pool.resolve("child")))) == 2 * count + 2
    return read.call_count


def pool_objects(pool: Pool, k: int) -> list[DataObject]:
    writer = pool.writer()
    writer.write(record([("k", int64(k))]))
    return writer.close()


def test_rebase_of_a_branch_without_own_commits_moves_it_forward(pool: Pool, load: Load) -> None:
    load("{k:0}")
    pool.names.create_branch("child", pool.resolve())
    load("{k:1}")
    assert changes.rebase(pool, "child", "main") == pool.resolve("main")
    assert pool.resolve("child") == pool.resolve("main")


def test_cherry_pick_of_a_deletion_finds_its_rows_and_is_refused_where_they_are_gone(
    pool: Pool, load: Load, read: Read
) -> None:
    first = load("{k:1}")
    load("{k:2}")
    pool.names.create_branch("child", pool.resolve("main"))
    (o,) = pool.commits.read(first).adds
    deletion = changes.delete(pool, "child", [o.id], ME)
    assert pool.commits.read(changes.cherry_pick(pool, "main", deletion, ME)).deletes == (o,)
    assert read() == ["{k:2}"]
    with pytest.raises(InvalidInput, match="already"):
        changes.cherry_pick(pool, "main", deletion, ME)
    load("{k:3}")
    pool.names.create_branch("other", pool.commits.read(deletion).parent)
    rewriting.compact(pool, "other", [each.id for each in pool.snapshot(pool.resolve("other")).objects()], ME)
    changes.cherry_pick(pool, "other", deletion, ME)
    assert read("other") == ["{k:2}"]


def test_names_are_checked_and_taken_once(pool: Pool, load: Load) -> None:
    load("{k:0}")
    pool.names.create_branch("a", pool.resolve())
    pool.names.create_tag("v1", pool.resolve())
    for name in ("a", "v1", "main"):
        with pytest.raises(AlreadyExists, match=name):
            pool.names.create_branch(name, None)
        with pytest.raises(AlreadyExists, match=name):
            pool.names.create_tag(name, pool.resolve())
    for name in ("", "a b", "a@b", "x:y", "2024-01-01T00:00:00Z", to_text(new()), "HEAD", "a|b", "0x00"):
        with pytest.raises(InvalidInput, match="invalid branch name"):
            pool.names.create_branch(name, None)
    pool.names.drop_branch("a")
    with pytest.raises(NotFound):
        pool.names.drop_branch("a")


def test_a_tag_stays_where_it_is(pool: Pool, load: Load, read: Read) -> None:
    load("{k:0}")
    pool.names.create_tag("v1", pool.resolve())
    load("{k:1}")
    assert read("v1") == ["{k:0}"]
    pool.names.drop_tag("v1")
    with pytest.raises(NotFound):
        read("v1")


def test_a_commitish_may_be_a_time(pool: Pool, load: Load, read: Read) -> None:
    load("{k:0}")
    between = pool.journal.read().at
    load("{k:1}")
    assert pool.journal.moment(between).position == 2
    assert read("2100-01-01T00:00:00Z") == ["{k:0}", "{k:1}"]
    with pytest.raises(NotFound, match="no branch"):
        read("2001-01-01T00:00:00Z")
    with pytest.raises(InvalidInput):
        read("2024-13-77T00:00:00Z")
    with pytest.raises(NotFound, match="branch not found"):
        read("nowhere")


def test_compaction_changes_no_result_and_leaves_no_overlap(pool: Pool, load: Load, read: Read) -> None:
    for text in ("{k:1} {k:9}", "{k:5}", "{x:1}", "{k:null}", "{x:2}"):
        load(text)
    before = read()
    rewriting.compact(pool, "main", ids(pool), ME)
    assert read()[:3] == before[:3]
    assert sorted(read()) == sorted(before)
    objects = list(pool.snapshot(pool.resolve()).objects())
    assert [(o.has_key, o.count) for o in objects] == [(True, 4), (False, 2)]
    assert rewriting.choose_runs(pool.config.key, objects, pool.config.object_size) == []


def test_the_policy_chooses_overlaps_and_small_neighbours_and_comes_to_rest(pool: Pool, load: Load) -> None:
    for i in range(30):
        load(f"{{k:{i % 7}}} {{k:{i}}}")
    for _ in range(5):
        runs = rewriting.choose_runs(pool.config.key, pool.snapshot(pool.resolve()).objects(), 60)
        if not runs:
            break
        for run in runs:
            rewriting.compact(pool, "main", [o.id for o in run], ME)
    else:
        pytest.fail("the policy never comes to rest")


def test_compact_needs_two_objects(pool: Pool, load: Load) -> None:
    load("{k:1}")
    with pytest.raises(InvalidInput, match="two or more"):
        rewriting.compact(pool, "main", ids(pool), ME)
