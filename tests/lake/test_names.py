"""What a name stands for, and names that come and go: each exactly once under the id of an operation."""

from __future__ import annotations

import pytest
from tests.lake.conftest import Load

from shoal.errors import AlreadyExists, InvalidInput, NotFound
from shoal.ids import new, to_text
from shoal.lake import branches
from shoal.lake.branches import Refs
from shoal.lake.pools import Pool


def test_a_name_an_id_and_no_name_at_all_resolve_to_a_commit(pool: Pool, load: Load) -> None:
    assert pool.resolve() is None
    first, second = load("{k:1}"), load("{k:2}")
    pool.names.create_tag("v1", first)
    assert pool.resolve() == pool.resolve("main") == second
    assert pool.resolve("v1") == pool.resolve(to_text(first)) == first
    with pytest.raises(NotFound, match='"v2": branch not found'):
        pool.resolve("v2")
    unknown = new()
    with pytest.raises(NotFound, match=f"{to_text(unknown)}: commit not found"):
        pool.resolve(to_text(unknown))


def test_a_commit_before_the_horizon_is_not_found(pool: Pool, load: Load) -> None:
    first, second = load("{k:1}"), load("{k:2}")
    pool.journal.once(None, lambda _: branches.set_horizon(second))
    assert pool.resolve(to_text(second)) == second
    with pytest.raises(NotFound, match=f"older than {to_text(second)}, where history begins"):
        pool.resolve(to_text(first))


def test_a_branch_that_is_created_again_under_its_id_is_created_once(pool: Pool, load: Load) -> None:
    first, op = load("{k:1}"), new()
    pool.names.create_branch("dev", first, op)
    position = pool.journal.read().position
    pool.names.create_branch("dev", first, op)
    assert pool.journal.read().position == position
    with pytest.raises(AlreadyExists):
        pool.names.create_branch("dev", first, new())


def test_the_id_of_another_operation_is_refused(pool: Pool, load: Load) -> None:
    op = new()
    first = load("{k:1}", op=op)
    with pytest.raises(InvalidInput, match="that of another operation"):
        pool.names.create_branch("dev", first, op)
    other = new()
    pool.names.create_branch("dev", first, other)
    with pytest.raises(InvalidInput, match="that of another operation"):
        pool.names.create_tag("v1", first, other)
    with pytest.raises(InvalidInput, match="that of another operation"):
        pool.names.drop_branch("dev", other)
    assert [ref.name for ref in pool.refs().branches()] == ["dev", "main"]


def test_a_drop_returns_what_was_dropped_also_when_it_is_repeated(pool: Pool, load: Load) -> None:
    first, op = load("{k:1}"), new()
    pool.names.create_branch("dev", first)
    dropped = pool.names.drop_branch("dev", op)
    assert (dropped.name, dropped.commit) == ("dev", first)
    assert pool.names.drop_branch("dev", op) == dropped
    with pytest.raises(NotFound, match='"dev": branch not found'):
        pool.names.drop_branch("dev", new())


def test_an_empty_pool_has_no_commit_to_tag(pool: Pool) -> None:
    with pytest.raises(InvalidInput, match="logs: there is no commit to tag yet"):
        pool.names.create_tag("v1", pool.resolve())


def test_a_commit_is_reached_by_branches_tags_and_merges(pool: Pool, load: Load) -> None:
    first = load("{k:1}")
    pool.names.create_branch("dev", first)
    tip = load("{k:2}", "dev")
    assert pool.names.is_reached(first, pool.refs())
    assert pool.names.is_reached(tip, pool.refs())
    pool.names.drop_branch("dev")
    assert not pool.names.is_reached(tip, pool.refs())
    pool.names.create_tag("kept", tip)
    assert pool.names.is_reached(tip, pool.refs())


def test_the_commit_of_a_dropped_branch_can_be_named_until_a_vacuum_takes_it(pool: Pool, load: Load) -> None:
    pool.names.create_branch("dev", load("{k:1}"))
    tip = load("{k:2}", "dev")
    pool.names.drop_branch("dev")
    pool.names.require_commit(tip, pool.journal.read())
    state = pool.journal.read()
    mark = branches.VacuumMark(state.position, state.at + 10**12)
    pool.journal.once(None, lambda _: branches.set_vacuum(mark))
    with pytest.raises(NotFound, match="a vacuum has taken it"):
        pool.names.create_branch("again", tip)
    assert Refs(pool.journal.read()).named("again") is None


def test_a_name_that_an_older_version_allowed_can_be_used_and_dropped(pool: Pool, load: Load) -> None:
    first = load("{k:1}")
    pool.journal.once(None, lambda _: branches.set_branch("\0", first, 0))
    assert pool.resolve("\0") == first
    with pytest.raises(InvalidInput, match="control characters are not allowed in names"):
        pool.names.create_branch("\x1b", first)
    assert pool.names.drop_branch("\0").commit == first
