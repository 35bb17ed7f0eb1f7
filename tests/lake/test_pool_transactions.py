"""Transactions over several pools: all branches change or none, and nobody waits for a writer that has died."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.lake.conftest import Load, Read
from tests.lake.staging import ME, commit, load_into, stop_after_the_decision, stop_at_the_decision, writes

from shoal.errors import Conflict, InvalidInput, NotFound, Unsupported
from shoal.ids import new, to_text
from shoal.lake import changes, pool_transactions, sessions, vacuum
from shoal.lake.actions import patch_of
from shoal.lake.decisions import Decision, Decisions
from shoal.lake.keys import EVERYTHING, parse_sort_key
from shoal.lake.lake import TRANSACTIONS, Lake, open_lake
from shoal.lake.pending import PENDING, format_pending, pending_in
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.model.literals import format_time

# ---- committing


def test_all_pools_change_together(made: Lake, pool: Pool, other: Pool, read: Read) -> None:
    txn = new()
    commits = commit(made, writes(pool, "{k:1}"), writes(other, "{k:2}"), txn=txn)
    assert (read(), read(of=other)) == (["{k:1}"], ["{k:2}"])
    assert set(commits) == {(pool.config.id, "main"), (other.config.id, "main")}
    for each in (pool, other):
        (made_there,) = each.log(each.resolve())
        assert made_there.txn == txn
        assert made_there.note == ME
        assert PENDING not in each.journal.read().entries
        assert each.resolve(to_text(txn)) == made_there.id


def test_two_branches_of_one_pool_can_take_part(made: Lake, pool: Pool, load: Load, read: Read) -> None:
    load("{k:1}")
    pool.names.create_branch("dev", pool.resolve())
    commit(made, writes(pool, "{k:2}"), writes(pool, "{k:3}", "dev"))
    assert read() == ["{k:1}", "{k:2}"]
    assert read("dev") == ["{k:1}", "{k:3}"]


def test_a_commit_that_is_rebased_still_says_its_transaction(made: Lake, pool: Pool, other: Pool, load: Load) -> None:
    load("{k:1}")
    pool.names.create_branch("dev", pool.resolve())
    txn = new()
    commit(made, writes(pool, "{k:2}", "dev"), writes(other, "{k:2}"), txn=txn)
    load("{k:3}")
    changes.rebase(pool, "dev", "main")
    assert [each.txn for each in pool.log(pool.resolve("dev"))] == [txn, None, None]


def test_the_branches_of_a_pool_get_their_pending_entries_by_one_entry_of_its_journal(
    made: Lake, pool: Pool, other: Pool, load: Load, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    load("{k:0}")
    branches = [f"b{number}" for number in range(5)]
    for branch in branches:
        pool.names.create_branch(branch, pool.resolve())
    parts = [writes(pool, f"{{k:{number}}}", branch) for number, branch in enumerate(branches, 1)]
    before = pool.journal.read().position
    txn = stop_at_the_decision(made, monkeypatch, writes(other, "{k:9}"), *parts)
    state = pool.journal.read()
    assert state.position == before + 1
    pending = pending_in(state.entries)
    assert [each.branch for each in pending] == branches
    assert {each.position for each in pending} == {before + 1}
    stored = [each[8] for each in state.entries[PENDING].data]
    assert [len(participants) for participants in stored] == [6, 0, 0, 0, 0], "they are there once"
    assert {len(each.participants) for each in pending} == {6}
    commit(open_lake(made.store), writes(other, "{k:9}"), *parts, txn=txn)
    assert pool.journal.read().position == before + 2
    assert [read(branch) for branch in branches] == [["{k:0}", f"{{k:{number}}}"] for number in range(1, 6)]


def test_an_attempt_takes_over_what_another_one_has_placed_branch_by_branch(
    made: Lake, pool: Pool, other: Pool, load: Load, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    load("{k:0}")
    pool.names.create_branch("dev", pool.resolve())
    parts = writes(pool, "{k:1}"), writes(pool, "{k:2}", "dev"), writes(other, "{k:3}")
    txn = stop_at_the_decision(made, monkeypatch, *parts)
    # A writer of an earlier version made an entry for each branch, and may have died between the two.
    first = pending_in(pool.journal.read().entries)[:1]
    pool.journal.change(new(), lambda state: {PENDING: format_pending(first)})
    commit(open_lake(made.store), *parts, txn=txn)
    assert (read(), read("dev"), read(of=other)) == (["{k:0}", "{k:1}"], ["{k:0}", "{k:2}"], ["{k:3}"])


def test_a_transaction_that_changes_one_pool_is_an_ordinary_commit(made: Lake, pool: Pool, other: Pool) -> None:
    session = sessions.begin(other, "main")
    commits = commit(made, writes(pool, "{k:1}"), (other, session))
    assert list(commits) == [(pool.config.id, "main")]
    assert list(made.decisions.all()) == []
    assert other.resolve() is None
    with pytest.raises(InvalidInput, match="empty transaction"):
        commit(made, (other, session))


def test_a_transaction_that_is_repeated_happens_once(made: Lake, pool: Pool, other: Pool, read: Read) -> None:
    parts, txn = (writes(pool, "{k:1}"), writes(other, "{k:2}")), new()
    first = commit(made, *parts, txn=txn)
    assert commit(made, *parts, txn=txn) == first
    assert commit(open_lake(made.store), *parts, txn=txn) == first
    assert read() == ["{k:1}"]


def test_an_id_of_a_transaction_on_other_branches_is_refused(made: Lake, pool: Pool, other: Pool, read: Read) -> None:
    third, txn = made.create_pool(PoolConfig(new(), "third", parse_sort_key("k"))), new()
    commit(made, writes(pool, "{k:1}"), writes(other, "{k:2}"), txn=txn)
    with pytest.raises(InvalidInput, match="that of another operation"):
        commit(made, writes(third, "{k:3}"), writes(other, "{k:4}"), txn=txn)
    assert (read(of=third), read(of=other)) == ([], ["{k:2}"])


def test_a_transaction_on_other_branches_leaves_one_alone_that_is_under_way(
    made: Lake, pool: Pool, other: Pool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = made.create_pool(PoolConfig(new(), "third", parse_sort_key("k")))
    parts = writes(pool, "{k:1}"), writes(other, "{k:2}")
    txn = stop_at_the_decision(made, monkeypatch, *parts)
    with pytest.raises(InvalidInput, match="that of another operation"):
        commit(open_lake(made.store), writes(other, "{k:3}"), writes(third, "{k:4}"), txn=txn)
    assert made.decisions.find(txn) is None
    commit(open_lake(made.store), *parts, txn=txn)
    assert (read(), read(of=other), read(of=third)) == (["{k:1}"], ["{k:2}"], [])


def test_what_cannot_be_done_in_one_pool_is_done_in_none(made: Lake, pool: Pool, other: Pool, read: Read) -> None:
    victim = load_into(made, other, "{k:9}")
    (doomed,) = other.commits.read(victim).adds
    session = sessions.begin(other, "main")
    part = (other, sessions.stage(session, patch_of(deletes=[doomed])))
    changes.delete(other, "main", [doomed.id], ME)
    with pytest.raises(Conflict):
        commit(made, writes(pool, "{k:1}"), part)
    assert read() == []
    assert PENDING not in pool.journal.read().entries
    load_into(made, pool, "{k:3}")  # and nobody waits
    assert read() == ["{k:3}"]


def test_data_that_is_purged_after_its_commit_was_written_is_in_no_pool(
    made: Lake, pool: Pool, other: Pool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = writes(pool, "{k:1}"), writes(other, "{k:2}")
    staged = [o.id for o in parts[0][1].staged.adds]
    prepare = pool_transactions._Part.prepare

    def slowly(self: Any) -> None:
        prepare(self)
        if self.pool.config.id == pool.config.id:
            vacuum.purge(pool, staged)

    monkeypatch.setattr(pool_transactions, "AT_ONCE", 1)
    monkeypatch.setattr(pool_transactions._Part, "prepare", slowly)
    with pytest.raises(Conflict, match="has been purged"):
        commit(made, *parts)
    assert (read(), read(of=other)) == ([], [])


def test_who_fails_half_way_keeps_nobody_waiting(
    made: Lake, pool: Pool, other: Pool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted((pool, other), key=lambda each: each.config.id)
    victim = load_into(made, second, "{k:9}")
    (doomed,) = second.commits.read(victim).adds
    part = second, sessions.stage(sessions.begin(second, "main"), patch_of(deletes=[doomed]))
    changes.delete(second, "main", [doomed.id], ME)
    txn = new()
    monkeypatch.setattr(
        pool_transactions, "_for_each", lambda act, items: None
    )  # what is wrong is found when it counts
    with pytest.raises(Conflict):
        commit(made, writes(first, "{k:1}"), part, txn=txn)
    decision = made.decisions.find(txn)
    assert decision is not None
    assert not decision.is_committed
    load_into(made, first, "{k:3}")
    assert read(of=first) == ["{k:3}"]


def test_a_transaction_checks_what_it_only_read(made: Lake, pool: Pool, other: Pool) -> None:
    session = sessions.note_read(sessions.begin(other, "main", "serializable"), EVERYTHING)
    part = writes(pool, "{k:1}", isolation="serializable")
    load_into(made, other, "{k:2}")
    with pytest.raises(Conflict, match="has changed what it read"):
        commit(made, part, (other, session))
    again = sessions.note_read(sessions.begin(other, "main", "serializable"), EVERYTHING)
    before = other.resolve()
    commits = commit(made, writes(pool, "{k:1}"), (other, again))
    assert list(commits) == [(pool.config.id, "main")]
    assert other.resolve() == before


def test_a_lake_of_an_earlier_version_refuses(made: Lake) -> None:
    pool_transactions.require_transactions(made.info, "here")
    earlier = replace(made.info, features=made.info.features - {TRANSACTIONS})
    with pytest.raises(Unsupported, match="create a new lake"):
        pool_transactions.require_transactions(earlier, "here")


def test_an_aborted_transaction_says_where_it_was_and_what_it_was_to_do(
    made: Lake, pool: Pool, other: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = writes(pool, "{k:1}"), writes(other, "{k:2}")
    op = stop_at_the_decision(made, monkeypatch, *parts, patience=0.05)
    for number in range(2):  # the second attempt has an id of its own
        load_into(made, pool, f"{{k:{number + 5}}}")
        if not number:
            stop_at_the_decision(made, monkeypatch, *parts, patience=0.05, txn=op)
    aborted = list(made.decisions.all())
    assert [each.is_committed for each in aborted] == [False, False]
    assert {each.op for each in aborted} == {op}
    for each in aborted:
        assert {part.place for part in each.parts} == {(of.config.id, "main") for of in (pool, other)}
        assert {part.commit for part in each.parts} == {None}


# ---- writers that die


def test_what_is_undecided_is_not_seen_and_blocks_its_branches_alone(
    made: Lake, pool: Pool, other: Pool, load: Load, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    load("{k:0}")
    pool.names.create_branch("dev", pool.resolve())
    stop_at_the_decision(made, monkeypatch, writes(pool, "{k:1}"), writes(other, "{k:2}"))
    assert (read(), read(of=other)) == (["{k:0}"], [])
    load("{k:5}", "dev")
    assert len(pending_in(pool.journal.read().entries)) == 1


def test_nobody_waits_longer_than_until(
    made: Lake, pool: Pool, other: Pool, load: Load, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn = stop_at_the_decision(made, monkeypatch, writes(pool, "{k:1}"), writes(other, "{k:2}"), patience=0.2)
    load("{k:5}")
    assert (read(), read(of=other)) == (["{k:5}"], [])
    decision = made.decisions.find(txn)
    assert decision is not None
    assert not decision.is_committed
    load_into(made, other, "{k:6}")
    assert read(of=other) == ["{k:6}"]


def test_a_stalled_writer_that_was_aborted_tries_again(
    made: Lake, pool: Pool, other: Pool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = writes(pool, "{k:1}"), writes(other, "{k:2}")
    txn = stop_at_the_decision(made, monkeypatch, *parts, patience=0.05)
    load_into(made, pool, "{k:5}")
    commits = commit(made, *parts, txn=txn)
    assert (read(), read(of=other)) == (["{k:1}", "{k:5}"], ["{k:2}"])
    assert commit(open_lake(made.store), *parts, txn=txn) == commits
    assert pool.resolve(to_text(txn)) == commits[pool.config.id, "main"]
    assert sorted(decision.is_committed for decision in made.decisions.all()) == [False, True]


def test_a_transaction_that_is_aborted_again_and_again_gives_up(
    made: Lake, pool: Pool, other: Pool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = Decisions.decide

    def too_late(self: Decisions, decision: Decision) -> Decision:
        return decide(self, Decision(decision.txn, False, decision.at))

    monkeypatch.setattr(Decisions, "decide", too_late)
    with pytest.raises(Conflict, match="3 times in a row"):
        commit(made, writes(pool, "{k:1}"), writes(other, "{k:2}"))
    assert (read(), read(of=other)) == ([], [])


def test_a_repeat_takes_over_the_entries_of_an_attempt_that_died(
    made: Lake, pool: Pool, other: Pool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = writes(pool, "{k:1}"), writes(other, "{k:2}")
    txn = stop_at_the_decision(made, monkeypatch, *parts)
    positions = [each.journal.read().position for each in (pool, other)]
    commit(open_lake(made.store), *parts, txn=txn)
    assert (read(), read(of=other)) == (["{k:1}"], ["{k:2}"])
    assert [each.journal.read().position for each in (pool, other)] == [each + 1 for each in positions]


def test_what_is_decided_is_seen_before_it_is_rolled_forward(
    made: Lake, pool: Pool, other: Pool, load: Load, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after_the_decision(made, monkeypatch, writes(pool, "{k:1}"), writes(other, "{k:2}"))
    assert (read(), read(of=other)) == (["{k:1}"], ["{k:2}"])
    assert PENDING in pool.journal.read().entries
    load("{k:3}")
    assert read() == ["{k:1}", "{k:3}"]
    assert PENDING not in pool.journal.read().entries
    assert PENDING in other.journal.read().entries
    assert read(of=other) == ["{k:2}"]


def test_a_vacuum_keeps_what_is_pending(
    made: Lake, pool: Pool, other: Pool, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = writes(pool, "{k:1}"), writes(other, "{k:2}")
    txn = stop_at_the_decision(made, monkeypatch, *parts)
    for each in (pool, other):
        vacuum.collect(each, grace=0)
    commit(open_lake(made.store), *parts, txn=txn)
    assert (read(), read(of=other)) == (["{k:1}"], ["{k:2}"])


def test_a_pool_that_was_dropped_aborts_the_transaction(made: Lake, pool: Pool, other: Pool, read: Read) -> None:
    parts = writes(pool, "{k:1}"), writes(other, "{k:2}")
    made.drop_pool("items")
    with pytest.raises(NotFound):
        commit(made, *parts)
    assert read() == []
    load_into(made, pool, "{k:3}")


# ---- the past


def test_all_pools_agree_at_every_time(
    made: Lake, pool: Pool, other: Pool, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    load("{k:0}")
    load_into(made, other, "{k:0}")
    for number in range(1, 4):
        parts = writes(pool, f"{{k:{number}}}"), writes(other, f"{{k:{number}}}")
        if number == 2:
            stop_after_the_decision(made, monkeypatch, *parts)
            load("{k:100}")  # which rolls one pool forward; the other is still behind
        else:
            commit(made, *parts)
    stop_after_the_decision(made, monkeypatch, writes(pool, "{k:4}"), writes(other, "{k:4}"))
    first = max(each.journal.entry(2).at for each in (pool, other))
    moments = {entry.at for each in (pool, other) for entry in each.journal.entries() if entry.at >= first}
    moments |= {decision.at + step for decision in made.decisions.all() for step in (-1, 0, 1)}
    counts = set()
    for moment in sorted(each for each in moments if each >= first):
        shown = [transactions_at(each, format_time(moment)) for each in (pool, other)]
        assert shown[0] == shown[1]
        counts.add(shown[0])
    assert counts == {0, 1, 2, 3, 4}


def transactions_at(pool: Pool, moment: str) -> int:
    return sum(each.txn is not None for each in pool.log(pool.resolve(moment)))


def test_the_decision_is_not_before_the_entries(made: Lake, pool: Pool, other: Pool) -> None:
    commit(made, writes(pool, "{k:1}"), writes(other, "{k:2}"))
    (decision,) = made.decisions.all()
    for each in (pool, other):
        placed, rolled = list(each.journal.entries())[-2:]
        assert placed.at <= decision.at <= rolled.at
        assert decision.needs[each.config.id] == placed.position
