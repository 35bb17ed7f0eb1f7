"""Transactions: begun, staged into, asked, and committed or dropped, by requests of one caller."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from shoal.api.branch import FindDone
from shoal.api.codecs import commit_response, id_of
from shoal.api.results import Results
from shoal.api.transaction import Begin
from shoal.engines.stopping import stopped_by
from shoal.errors import InvalidInput, NotFound
from shoal.lake.branches import as_id
from shoal.local.transactions import LocalTransaction
from shoal.model.fields import time_value
from shoal.model.values import int64, record
from shoal.service.answers import Answer
from shoal.service.calls import Call, id_texts
from shoal.service.handlers.queries import Output, stream
from shoal.service.handlers.verbs import announce_commit, pieces


def begin(call: Call) -> Answer:
    """A new transaction on a branch."""
    asked = call.record({"isolation": str, "expires": (int, float)})
    seconds = asked.get("expires")
    op, pool = call.operation(), call.pool()
    transaction = call.service.transactions.find(op, call.subject, pool.id, call.path["branch"])
    if transaction is None:
        expires = None if seconds is None else float(seconds)
        begun = call.lake.do(Begin(pool.id, call.path["branch"], asked.get("isolation", "snapshot"), expires, op))
        assert isinstance(begun, LocalTransaction)  # a service stages in this process
        transaction = begun
        call.service.transactions.add(transaction, call.subject, pool.id)
    return record([
        ("id", id_of(transaction.id)),
        ("base", id_of(transaction.base)),
        ("expires", time_value(int(transaction.session.expires * 1e9))),
        ("position", int64(transaction.session.position)),
    ])  # fmt: skip


def load(call: Call) -> None:
    """Stage the body."""
    with _transaction(call) as transaction:
        op = call.step() if call.body.is_whole else call.step
        mode: Any = call.params.get("mode", "load")
        transaction.write(mode, pieces(call), "auto", call.read_options(), op)
    call.service.metrics.loaded.inc(call.body.size)


def update(call: Call) -> None:
    """Stage a change of records."""
    body = call.record({"where": str, "program": str})
    if not body.get("where") or not body.get("program"):
        raise InvalidInput("an update has where (a condition) and program (what changes)")
    with _transaction(call) as transaction:
        transaction.update(body["where"], body["program"], op=call.step())


def delete(call: Call) -> None:
    """Stage the removal of data objects, or of records."""
    body = call.record({"object_ids": list, "where": str})
    where, ids = body.get("where") or None, id_texts(body.get("object_ids", []))
    if where is not None and ids:
        raise InvalidInput("delete by object_ids or by where, not both")
    with _transaction(call) as transaction:
        transaction.delete(ids, where=where, op=call.step())


def query(call: Call) -> Answer:
    """Ask the lake as the transaction sees it."""
    program = call.record({"query": str}).get("query", "")

    def ask(output: Output) -> Results:
        with stopped_by(output.stop), _transaction(call) as transaction:
            return transaction.query(program)

    return stream(call, ask)


def sql(call: Call) -> Answer:
    """Run a statement in SQL; what it changes is staged."""
    body = call.record({"statement": str})
    if "statement" not in body:
        raise InvalidInput("the body has to have a statement")
    op = call.step()

    def ask(output: Output) -> Results:
        with stopped_by(output.stop), _transaction(call) as transaction:
            return transaction.sql(body["statement"], op=op)

    return stream(call, ask)


def commit(call: Call) -> Answer:
    """Put it all onto the branch; again, if the answer to the first time was lost."""
    branch = call.path["branch"]
    try:
        with _transaction(call) as transaction:
            done = transaction.end(call.note(), if_changed=call.is_set("optional"))
    except NotFound:
        # The service may have restarted after the commit, and before its answer.
        done = _committed_before(call)
        if done is None:
            raise
    if done is None:
        return None
    announce_commit(call, branch, done)
    return commit_response(done, call.warnings)


def abandon(call: Call) -> None:
    """Drop what was staged."""
    with _transaction(call) as transaction:
        transaction.abandon()


def _committed_before(call: Call) -> str | None:
    """The commit of a transaction that the service has forgotten, if it was committed."""
    if as_id(call.path["id"]) is None:
        return None
    position = call.number("position")
    request = FindDone(
        call.pool().id, call.path["branch"], call.path["id"], None if position is None else int(position)
    )
    return call.lake.do(request)


def _transaction(call: Call) -> AbstractContextManager[LocalTransaction]:
    return call.service.transactions.of(*_place(call))


def _place(call: Call) -> tuple[str, str, str, str]:
    return call.path["id"], call.subject, call.pool().id, call.path["branch"]
