"""Sessions: nothing is seen before the commit, all of it after, and nobody is overwritten."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from tests.lake.conftest import Load, Read

from shoal.errors import Conflict, InvalidInput, ReadOnly
from shoal.ids import Id, new
from shoal.lake import changes, sessions
from shoal.lake.actions import patch_of
from shoal.lake.commits import Note
from shoal.lake.keys import EVERYTHING, Bound, KeyRange, parse_sort_key
from shoal.lake.lake import Lake
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool, open_pool
from shoal.lake.sessions import BranchRead, Session
from shoal.model.values import int64
from shoal.storage.faults import FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.testing.queries import parse_values

ME = Note("me")


def staged(pool: Pool, session: Session, text: str) -> Session:
    writer = pool.writer()
    for value in parse_values(text):
        writer.write(value)
    return sessions.stage(session, patch_of(writer.close()))


def journal_ops(pool: Pool) -> list[Id]:
    return [entry.op for entry in pool.journal.entries()]


def test_what_is_staged_is_seen_by_the_session_alone(pool: Pool, load: Load, read: Read) -> None:
    load("{k:1}")
    session = staged(pool, sessions.begin(pool, "main"), "{k:2}")
    assert read(sessions.view(pool, session)) == ["{k:1}", "{k:2}"]
    assert read() == ["{k:1}"]
    sessions.commit(pool, session, ME)
    assert read() == ["{k:1}", "{k:2}"]


def test_a_commit_that_is_repeated_happens_once(pool: Pool, read: Read) -> None:
    session = staged(pool, sessions.begin(pool, "main"), "{k:2}")
    first = sessions.commit(pool, session, ME)
    assert sessions.commit(pool, session, ME) == first
    assert journal_ops(pool).count(session.id) == 1
    assert read() == ["{k:2}"]


def test_what_became_of_a_session_is_known_by_its_id_alone(pool: Pool, load: Load) -> None:
    session = staged(pool, sessions.begin(pool, "main"), "{k:2}")
    assert pool.committer.done(session.id, "main") is None
    load("{k:1}")
    commit = sessions.commit(pool, session, ME)
    load("{k:3}")
    assert open_pool(pool.store, pool.config).committer.done(session.id, "main") == commit


def test_a_session_that_is_begun_anew_under_its_id_is_committed_once(pool: Pool, load: Load, read: Read) -> None:
    first = staged(pool, sessions.begin(pool, "main"), "{k:1}")
    commit = sessions.commit(pool, first, ME)
    load("{k:2}")
    again = staged(pool, sessions.begin(pool, "main", op=first.id), "{k:1}")
    assert again.position > first.position
    assert sessions.commit(pool, again, ME) == commit
    assert journal_ops(pool).count(first.id) == 1
    assert read() == ["{k:1}", "{k:2}"]


def test_additions_go_onto_what_others_did(pool: Pool, load: Load, read: Read) -> None:
    session = staged(pool, sessions.begin(pool, "main"), "{k:2}")
    load("{k:1}")
    sessions.commit(pool, session, ME)
    assert read() == ["{k:1}", "{k:2}"]


def test_deleting_what_another_deleted_conflicts(pool: Pool, load: Load, read: Read) -> None:
    base = load("{k:1}")
    (o,) = pool.snapshot(base).objects()
    session = sessions.stage(sessions.begin(pool, "main"), patch_of((), (o,)))
    changes.delete(pool, "main", [o.id], ME)
    with pytest.raises(Conflict):
        sessions.commit(pool, session, ME)
    assert session.id not in journal_ops(pool)


def test_serializable_checks_what_was_read(pool: Pool, load: Load) -> None:
    load("{k:1}")
    everything = sessions.note_read(sessions.begin(pool, "main", "serializable"), EVERYTHING)
    below = sessions.note_read(sessions.begin(pool, "main", "serializable"), KeyRange(upper=Bound(int64(5))))
    loose = sessions.note_read(sessions.begin(pool, "main"), EVERYTHING)
    load("{k:9}")
    with pytest.raises(Conflict, match="has changed what it read"):
        sessions.commit(pool, staged(pool, everything, "{k:2}"), ME)
    sessions.commit(pool, staged(pool, below, "{k:3}"), ME)
    sessions.commit(pool, staged(pool, loose, "{k:4}"), ME)


def test_what_was_read_elsewhere_is_checked_before_each_attempt(store: MemoryStore, made: Lake, pool: Pool) -> None:
    """The first slot goes to a new branch: the commit that was written fits still, but not what was read elsewhere."""
    other = made.create_pool(PoolConfig(new(), "rates", parse_sort_key("k")))
    read = BranchRead(other.config.id, "main", None, EVERYTHING)
    session = sessions.note_others(sessions.begin(pool, "main", "serializable"), [read])
    slots: list[str] = []

    def interfere(number: int, call: str, key: str) -> None:
        if call == "create" and key.startswith(f"{pool.prefix}/branches/") and not slots:
            slots.append(key)
            pool.names.create_branch("side", None)
            writer = other.writer()
            writer.write(int64(1))
            other.committer.commit(changes.load("main", writer.close(), ME))

    slow = open_pool(FaultyStore(store, interfere), pool.config)
    with pytest.raises(Conflict, match="on rates@main has changed what it read"):
        sessions.commit(slow, staged(pool, session, "{k:2}"), ME, made)
    assert len(slots) == 1
    assert session.id not in journal_ops(pool)


def test_copies_in_other_processes_are_taken_over(pool: Pool, read: Read) -> None:
    session = staged(pool, sessions.begin(pool, "main"), "{k:0}")
    copies = [sessions.forked(pickle.loads(pickle.dumps(session))) for _ in range(3)]
    copies = [staged(pool, copy, f"{{k:{i + 1}}}") for i, copy in enumerate(copies)]
    session = sessions.take_over(pool, session, copies)
    sessions.commit(pool, session, ME)
    assert read() == ["{k:0}", "{k:1}", "{k:2}", "{k:3}"]
    with pytest.raises(InvalidInput, match="not a copy"):
        sessions.take_over(pool, session, [sessions.begin(pool, "main")])


def test_an_expired_session_writes_nothing(pool: Pool, read: Read) -> None:
    session = replace(staged(pool, sessions.begin(pool, "main"), "{k:0}"), expires=0.0)
    with pytest.raises(ReadOnly, match="has expired"):
        sessions.commit(pool, session, ME)
    with pytest.raises(ReadOnly):
        sessions.stage(session, patch_of())
    assert read() == []


@pytest.mark.parametrize("seconds", [0, -1, 8 * 24 * 3600])
def test_how_long_a_session_lasts_is_bounded(pool: Pool, seconds: float) -> None:
    with pytest.raises(InvalidInput, match="expires: a transaction may be open for more than 0s and up to 7d"):
        sessions.begin(pool, "main", seconds=seconds)


def test_an_empty_session_has_nothing_to_commit(pool: Pool) -> None:
    with pytest.raises(InvalidInput, match="empty transaction"):
        sessions.commit(pool, sessions.begin(pool, "main"), ME)


def test_copies_that_remove_what_was_staged_or_is_in_the_branch_remove_it(pool: Pool, load: Load, read: Read) -> None:
    base = load("{k:9}")
    (o,) = pool.snapshot(base).objects()
    session = staged(pool, sessions.begin(pool, "main"), "{k:0}")
    (mine,) = session.staged.adds
    one = sessions.stage(sessions.forked(session), patch_of((), (mine,)))
    other = sessions.stage(sessions.forked(session), patch_of((), (o,)))
    both = staged(pool, sessions.take_over(pool, session, [one, other]), "{k:5}")
    sessions.commit(pool, both, ME)
    assert read() == ["{k:5}"]
    assert sessions.take_over(pool, session, [one, one]) == sessions.take_over(pool, session, [one])


def test_a_commit_is_recognised_after_the_session_has_expired(pool: Pool) -> None:
    session = staged(pool, sessions.begin(pool, "main"), "{k:2}")
    landed = sessions.commit(pool, session, ME)
    assert sessions.commit(pool, replace(session, expires=0.0), ME) == landed
