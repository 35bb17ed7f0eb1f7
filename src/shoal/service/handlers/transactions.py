"""Transactions: begun, staged into, asked, and committed or dropped, by requests of one caller."""

from __future__ import annotations

from contextlib import AbstractContextManager

from shoal.engines.stopping import stopped_by
from shoal.errors import NotFound
from shoal.frames.results import Results
from shoal.ids import to_text
from shoal.lake.branches import as_id
from shoal.local.transaction import LocalTransaction
from shoal.model.fields import time_value
from shoal.model.values import int64, record
from shoal.service.answers import Answer, commit_response, id_of
from shoal.service.calls import Call
from shoal.service.handlers.loads import deletion, pieces
from shoal.service.handlers.pools import branch_update
from shoal.service.handlers.queries import Aside, stream
from shoal.service.operations import Keyed


def begin(call: Call) -> Answer:
    """A new transaction on a branch."""
    asked = call.record({"isolation": str, "expires": (int, float)})
    seconds = asked.get("expires")
    op, pool = call.operation(), call.pool()
    transaction = call.service.transactions.known(op, call.subject, pool.id, call.path["branch"])
    if transaction is None:
        transaction = pool.begin(
            call.path["branch"],
            isolation=asked.get("isolation", "snapshot"),
            expires=None if seconds is None else float(seconds),
            id=op,
        )
        call.service.transactions.add(transaction, call.subject, pool.id)
    expires = time_value(int(transaction.session.expires * 1e9))
    return record([
        ("id", id_of(transaction.id)),
        ("base", id_of(transaction.base)),
        ("expires", expires),
        ("position", int64(transaction.session.position)),
    ])  # fmt: skip


def load(call: Call) -> None:
    """Stage the body."""
    with _step(call) as (transaction, steps):
        if call.body.is_whole and call.keyed() in steps:
            return
        objects = call.pool().write(pieces(call))
        keyed = call.keyed()
        if keyed in steps:
            return
        transaction.add(objects)
        if keyed is not None:
            steps.add(keyed)
    call.service.metrics.loaded.inc(call.body.size)


def delete(call: Call) -> None:
    """Stage the removal of data objects, or of records."""
    ids, where = deletion(call)
    keyed = call.keyed()
    with _step(call) as (transaction, steps):
        if keyed in steps:
            return
        transaction.delete(ids, where=where)
        if keyed is not None:
            steps.add(keyed)


def query(call: Call) -> Answer:
    """Ask the lake as the transaction sees it."""
    program = call.record({"query": str}).get("query", "")

    def ask(aside: Aside) -> Results:
        with _transaction(call) as transaction, stopped_by(aside.stop):
            return transaction.query(program)

    return stream(call, ask)


def commit(call: Call) -> Answer:
    """Put it all onto the branch; again, if the answer to the first time was lost."""
    pool, branch = call.pool(), call.path["branch"]
    try:
        with _transaction(call) as transaction:
            if call.is_set("optional") and transaction.is_empty:
                transaction.abandon()
                return None
            done = transaction.commit(**call.note())
    except NotFound:
        # The service may have begun anew after the commit, and before its answer.
        ident = as_id(call.path["id"])
        position = call.number("position")
        after = None if position is None else int(position)
        found = None if ident is None else pool.inner.done(ident, branch, after)
        if found is None:
            raise
        done = to_text(found)
    branch_update(call, pool, branch, done)
    return commit_response(done, call.warnings)


def abandon(call: Call) -> None:
    """Drop what was staged."""
    with _transaction(call) as transaction:
        transaction.abandon()


def _step(call: Call) -> AbstractContextManager[tuple[LocalTransaction, set[Keyed]]]:
    return call.service.transactions.step(*_place(call))


def _transaction(call: Call) -> AbstractContextManager[LocalTransaction]:
    return call.service.transactions.of(*_place(call))


def _place(call: Call) -> tuple[str, str, str, str]:
    return call.path["id"], call.subject, call.pool().id, call.path["branch"]
