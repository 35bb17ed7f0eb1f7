"""Transactions over several pools: how they begin and end, and what became of them.

What is staged in between goes through the handlers of transactions on one branch. The decision in the lake says whether
one was committed, also after a restart. One that changed a single branch is an ordinary commit, and has none.
"""

from __future__ import annotations

from typing import Any

from shoal.api.branch import FindDone
from shoal.api.codecs import id_of, show_place
from shoal.api.commitish import parse_head
from shoal.api.lake_transaction import BeginOver
from shoal.api.pool import Pool
from shoal.errors import Conflict, Forbidden, InvalidInput, NotFound
from shoal.ids import Id, parse, to_text
from shoal.lake.branches import as_id
from shoal.lake.decisions import Decision, Decisions, message_of
from shoal.local.executor import StoreExecutor, stored
from shoal.local.lake_transactions import LocalLakeTransaction
from shoal.model.fields import time_value
from shoal.model.node import frozen
from shoal.model.values import Value, array, record, string
from shoal.service.answers import Answer
from shoal.service.calls import Call, id_texts, texts
from shoal.service.handlers.transactions import opened, require_write
from shoal.service.handlers.verbs import announce_commit
from shoal.service.transactions import not_found


@frozen
class _Done:
    """A commit that a transaction has made."""

    pool: Pool
    branch: str
    commit: str

    @property
    def place(self) -> str:
        """The branch, with its pool."""
        return f"{self.pool.name}@{self.branch}"


def begin(call: Call) -> Answer:
    """A new transaction on branches of several pools."""
    asked = call.record({"pools": list, "isolation": str, "expires": (int, float)})
    places = tuple(_place_to_change(call, text) for text in texts(asked.get("pools", []), "pools"))
    op, seconds = call.operation(), asked.get("expires")
    transaction = call.service.transactions.find(op, call.subject, None)
    if transaction is None:
        expires = None if seconds is None else float(seconds)
        begun = call.lake.do(BeginOver(places, asked.get("isolation", "snapshot"), expires, op))
        assert isinstance(begun, LocalLakeTransaction)  # a service stages in this process
        transaction = call.service.transactions.add(begun, call.subject, None)
    assert isinstance(transaction, LocalLakeTransaction)
    return record(_shown(transaction))


def _place_to_change(call: Call, text: str) -> str:
    """A branch by the id of its pool, if the caller may write there."""
    name, branch = parse_head(text)
    pool = call.lake.pool(name)
    call.service.access.require(call.identity, pool.id, "write", name)
    return f"{pool.id}@{branch}"


def commit(call: Call) -> Answer:
    """Put it all onto its branches; again, if the answer to the first time was lost."""
    try:
        with opened(call) as transaction:
            assert isinstance(transaction, LocalLakeTransaction)
            ended = transaction.end(call.note(), if_changed=call.is_set("optional"))
            if ended is None:
                return None
            places = {info.place: info for info in transaction.infos}
            done = [_done(call, places[name].pool, places[name].branch, ident) for name, ident in ended.items()]
    except NotFound:
        if call.service.transactions.find(call.path["id"], call.subject, None) is not None:
            raise
        # It was committed before, and its answer was lost, or the service has restarted since.
        done = _committed_before(call)
        if not done:
            raise
    for each in done:
        announce_commit(call, each.branch, each.commit, each.pool)
    return record([("id", id_of(call.path["id"])), ("commits", array(map(_shown_commit, done)))])


def _done(call: Call, pool: str, branch: str, ident: str) -> _Done:
    return _Done(call.lake.pool(pool), branch, ident)


def _committed_before(call: Call) -> list[_Done]:
    """The commits of a transaction that the service has forgotten.

    None if it was not committed, or by somebody who may write to other pools than the caller. InvalidInput if it was
    begun on other branches than the caller says.
    """
    op = as_id(call.path["id"])
    if op is None:
        return []
    decision = _decisions(call).committed(op)
    if decision is None:
        aborted = _decisions(call).find(op)
        if aborted is not None and _may_see(call, aborted):
            raise Conflict(f"transaction {to_text(op)} was aborted (begin a new one)")
        return _committed_alone(call)
    access = call.service.access
    may_commit = all(access.may(call.identity, to_text(part.pool), "write") for part in decision.parts)
    begun = {(pool, branch) for pool, branch, _ in _places_in_body(call)}
    if may_commit and begun and not begun.issuperset((to_text(part.pool), part.branch) for part in decision.parts):
        raise InvalidInput(f"{to_text(op)}: this id is that of another transaction (use a new one)")
    return _commits(call, op, decision) if may_commit else []


def _may_see(call: Call, aborted: Decision) -> bool:
    """Whether a caller may know of a transaction that was aborted; those of earlier versions name no pools."""
    return not aborted.parts or any(_visible(call, part.pool) is not None for part in aborted.parts)


def _committed_alone(call: Call) -> list[_Done]:
    """The commit of a transaction that has changed one of the branches in the body."""
    done = []
    for pool, branch, position in _places_in_body(call):
        if not call.service.access.may(call.identity, pool, "write"):
            return []
        ident = call.lake.do(FindDone(pool, branch, call.path["id"], position))
        done += [] if ident is None else [_done(call, pool, branch, ident)]
    return done


def _places_in_body(call: Call) -> list[tuple[str, str, int | None]]:
    return list(map(_place_in_body, call.record({"places": list}).get("places", [])))


def _place_in_body(place: Any) -> tuple[str, str, int | None]:
    """The id of the pool, the branch, and the position of the journal, as `begin` has told them."""
    if not isinstance(place, dict) or not isinstance(place.get("branch"), str):
        raise InvalidInput("places: these are not records as the transaction began with (of pool, branch, position)")
    position = place.get("position")
    (pool,) = id_texts([place.get("pool")], "places")
    return pool, place["branch"], position if isinstance(position, int) else None


def show_all(call: Call) -> Answer:
    """The transactions over several pools that the caller has open."""
    mine = call.service.transactions.all_of(call.subject, None)
    return [record(_shown(each)) for each in mine if isinstance(each, LocalLakeTransaction) and _may_write(call, each)]


def _may_write(call: Call, transaction: LocalLakeTransaction) -> bool:
    try:
        require_write(call, transaction)
    except (Forbidden, NotFound):
        return False
    return True


def show(call: Call) -> Answer:
    """Whether a transaction over several pools is open, committed or aborted, and its commits."""
    op = as_id(call.path["id"])
    decision = None if op is None else _decisions(call).committed(op)
    if op is not None and decision is not None:
        return _shown_decision(call, op, decision)
    transaction = call.service.transactions.find(call.path["id"], call.subject, None)
    if isinstance(transaction, LocalLakeTransaction):
        require_write(call, transaction)
        return record([*_shown(transaction), ("state", string("open"))])
    aborted = None if op is None else _decisions(call).find(op)
    if op is None or aborted is None or not _may_see(call, aborted):
        raise not_found(call.path["id"])
    return record([("id", id_of(to_text(op))), ("ts", time_value(aborted.at)), ("state", string("aborted"))])


def _shown(transaction: LocalLakeTransaction) -> list[tuple[str, Value]]:
    return [
        ("id", id_of(transaction.id)),
        ("places", array(map(show_place, transaction.infos))),
        ("expires", time_value(int(transaction.expires * 1e9))),
    ]


def _shown_decision(call: Call, op: Id, decision: Decision) -> Value:
    """What was committed, as far as its pools may be seen."""
    done = _commits(call, op, decision)
    if not done:
        raise not_found(call.path["id"])
    return record([
        ("id", id_of(to_text(op))),
        ("ts", time_value(decision.at)),
        ("state", string("committed")),
        ("author", string(decision.author)),
        ("message", string(message_of(decision, {parse(each.pool.id): each.pool.name for each in done}))),
        ("meta", decision.meta),
        ("commits", array(map(_shown_commit, done))),
    ])  # fmt: skip


def _shown_commit(done: _Done) -> Value:
    return record([
        ("place", string(done.place)),
        ("pool", id_of(done.pool.id)),
        ("branch", string(done.branch)),
        ("commit", id_of(done.commit)),
    ])  # fmt: skip


def _commits(call: Call, op: Id, decision: Decision) -> list[_Done]:
    """The commits of a transaction in the pools that the caller sees. What it has only read has no commit of it."""
    done = []
    for part in decision.parts:
        pool = _visible(call, part.pool)
        if pool is not None and part.commit is not None and _is_of(pool, part.commit, op):
            done.append(_Done(pool, part.branch, to_text(part.commit)))
    return sorted(done, key=lambda each: each.place)


def _is_of(pool: Pool, commit: Id, op: Id) -> bool:
    """Whether a transaction made a commit. One that is gone from history counts as made."""
    stored_commit = stored(pool).commits.lookup(commit)
    return stored_commit is None or stored_commit.txn == op


def _visible(call: Call, pool: Id) -> Pool | None:
    try:
        return call.lake.pool(to_text(pool))
    except NotFound:
        return None


def _decisions(call: Call) -> Decisions:
    assert isinstance(call.lake, StoreExecutor)
    return call.lake.root.decisions
