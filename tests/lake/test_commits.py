"""Commits are stored once, read back as they were, and walked by their parents."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.errors import CorruptData
from shoal.ids import Id, new, to_text
from shoal.lake.actions import patch_of
from shoal.lake.commits import Commit, Commits, Note, format_commit, parse_commit, show_actions, show_commit
from shoal.lake.objects import DataObject
from shoal.model.fields import name_of, named
from shoal.model.parse import parse_value
from shoal.model.values import Value, int64
from shoal.storage.memory import MemoryStore


@pytest.fixture
def commits(store: MemoryStore) -> Commits:
    return Commits(store, "p", lambda: None)


def an_object(low: int, high: int) -> DataObject:
    return DataObject(new(), int64(low), int64(high), 1, 1, 0)


def a_commit(parent: Id | None = None, generation: int = 1) -> Commit:
    return Commit(new(), parent, 1_700_000_000_000_000_000, Note("ada", "first"), generation=generation)


def full_commit() -> Commit:
    patch = patch_of([an_object(1, 5)], [an_object(2, 3)])
    return Commit(
        id=new(),
        parent=new(),
        date=1_700_000_000_123_456_789,
        note=Note("ada", "a message", parse_value('{x:1,y:"z"}')),
        actions=patch.actions,
        merged=new(),
        retries=3,
        generation=7,
        checkpoint=new(),
        op=new(),
        position=12,
        since=(new(), new()),
    )


@pytest.mark.parametrize("commit", [a_commit(), full_commit()], ids=["bare", "full"])
def test_a_commit_reads_back_as_it_was_written(store: MemoryStore, commit: Commit) -> None:
    Commits(store, "p", lambda: None).write(commit)
    assert Commits(store, "p", lambda: None).read(commit.id) == commit
    assert parse_commit(list(format_commit(commit)), "here") == commit


def test_retries_beyond_a_byte_are_stored_as_the_greatest() -> None:
    commit = replace(a_commit(), retries=1000)
    assert parse_commit(list(format_commit(commit)), "here").retries == 255


def test_fields_of_a_later_version_are_ignored() -> None:
    commit = full_commit()
    head, *actions = format_commit(commit)
    fields = [(field.name, head.field(field.name)) for field in head.type.under.fields]  # type: ignore[attr-defined]
    later = _record("Commit", [("colour", int64(1)), *reversed(fields)])
    assert parse_commit([later, *actions], "here") == commit


def _record(name: str, fields: list[tuple[str, Value | None]]) -> Value:
    return named(name, *((key, value) for key, value in fields if value is not None))


@pytest.mark.parametrize("values", [[], [parse_value("{id:1}")]])
def test_a_commit_without_metadata_is_corrupt(values: list[Value]) -> None:
    with pytest.raises(CorruptData, match="here: a commit without its metadata"):
        parse_commit(values, "here")


def test_the_second_to_create_a_commit_of_one_id_loses(store: MemoryStore) -> None:
    mine = a_commit()
    theirs = replace(mine, note=Note("bob", "other"))
    assert Commits(store, "p", lambda: None).create(mine)
    other = Commits(store, "p", lambda: None)
    assert not other.create(theirs)
    assert other.read(mine.id) == mine


def test_a_commit_that_is_not_there_is_named(commits: Commits) -> None:
    ident = new()
    assert commits.lookup(ident) is None
    assert commits.find(ident) is None
    with pytest.raises(CorruptData, match=rf"p/commits/{to_text(ident)}\.zng: this commit is gone"):
        commits.read(ident)


def test_find_asks_the_store_and_read_may_not(store: MemoryStore, commits: Commits) -> None:
    commit = a_commit()
    commits.write(commit)
    listed = commits.find(commit.id)
    assert listed is not None
    store.delete(listed.key)
    assert commits.find(commit.id) is None
    assert commits.read(commit.id) == commit
    assert Commits(store, "p", lambda: None).lookup(commit.id) is None


def test_a_walk_goes_by_parents_up_to_a_commit_or_the_beginning(commits: Commits) -> None:
    chain = [a_commit()]
    for generation in range(2, 6):
        chain.append(a_commit(chain[-1].id, generation))
    for commit in chain:
        commits.write(commit)
    newest_first = chain[::-1]
    assert list(commits.walk(chain[-1].id)) == newest_first
    assert list(commits.walk(chain[-1].id, until=chain[1].id)) == newest_first[:3]
    assert list(commits.walk(None)) == []
    assert commits.read_all([commit.id for commit in chain]) == chain


def test_many_commits_of_a_slow_store_come_in_their_order(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [a_commit() for _ in range(20)]
    for commit in written:
        Commits(store, "p", lambda: None).write(commit)
    monkeypatch.setattr("shoal.lake.commits._SLOW", -1.0)
    assert Commits(store, "p", lambda: None).read_all([commit.id for commit in written]) == written


def test_the_hints_of_a_commit_are_what_its_child_says() -> None:
    commit = full_commit()
    assert commit.hints == (commit.checkpoint, (*commit.since, commit.id))
    assert commit.parents == (commit.parent, commit.merged)
    assert a_commit().parents == ()


def test_meta_queries_show_actions_and_a_merge() -> None:
    commit = full_commit()
    assert [name_of(value) for value in show_actions(commit)] == ["Add", "Delete", "Commit"]
    merged = show_commit(commit).field("merged")
    assert merged is not None
    assert merged.data == commit.merged
    assert show_commit(a_commit()).field("merged") is None
    assert show_commit(commit).field("checkpoint") is None
