"""Transactions over several pools at the level of the lake, and writers of them that die half way."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.ids import Id, new
from shoal.lake import changes, pool_transactions, sessions
from shoal.lake.actions import patch_of
from shoal.lake.commits import Note
from shoal.lake.decisions import Decision, Decisions
from shoal.lake.lake import Lake
from shoal.lake.pools import Pool
from shoal.lake.sessions import Isolation, Session
from shoal.testing.queries import parse_values

ME = Note("me", "both")
Staged = tuple[Pool, Session]


class Died(BaseException):
    """The process ends here."""


def writes(pool: Pool, text: str, branch: str = "main", isolation: Isolation = "snapshot") -> Staged:
    writer = pool.writer()
    for value in parse_values(text):
        writer.write(value)
    session = sessions.begin(pool, branch, isolation)
    return pool, sessions.stage(session, patch_of(writer.close()))


def commit(lake: Lake, *parts: Staged, txn: Id | None = None, patience: float = 60.0) -> dict[tuple[Id, str], Id]:
    members = pool_transactions.participants_of(lake, parts, ME)
    return dict(pool_transactions.commit(lake.decisions, txn or new(), members, ME, patience))


def stop_at_the_decision(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *parts: Staged, patience: float = 60.0, txn: Id | None = None
) -> Id:
    """A transaction whose writer dies when all pending entries are there; its id."""
    txn = txn or new()

    def die(self: Decisions, decision: Decision) -> Decision:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Decisions, "decide", die)
        with pytest.raises(Died):
            commit(lake, *parts, txn=txn, patience=patience)
    return txn


def stop_after_the_decision(lake: Lake, monkeypatch: pytest.MonkeyPatch, *parts: Staged) -> Id:
    """A transaction whose writer dies before any branch is rolled forward; its id."""
    txn = new()

    def die(pools: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(pool_transactions, "settle", die)
        with pytest.raises(Died):
            commit(lake, *parts, txn=txn)
    return txn


def load_into(lake: Lake, pool: Pool, text: str, branch: str = "main") -> Id:
    part = writes(pool, text, branch)
    return pool.committer.commit(changes.load(branch, part[1].staged.adds, ME))


def stop_after_one_pool(lake: Lake, monkeypatch: pytest.MonkeyPatch, *parts: Staged) -> Id:
    """A transaction whose writer dies when the first of its pools has a pending entry; its id."""
    txn, place = new(), pool_transactions._Commit._place

    def die(self: Any, members: Any) -> Any:
        if members[0].pool.config.id != min(pool.config.id for pool, _ in parts):
            raise Died
        return place(self, members)

    with monkeypatch.context() as patched:
        patched.setattr(pool_transactions._Commit, "_place", die)
        with pytest.raises(Died):
            commit(lake, *parts, txn=txn)
    return txn
