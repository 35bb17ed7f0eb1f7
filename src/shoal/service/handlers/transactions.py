"""Transactions: begun, staged into, asked, and committed or dropped, by requests of one caller.

Those on one branch are below the path of the branch, where the service checks who may write. One over several pools has
a path of its own: what it needs is checked here, at each request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shoal.api.branch import FindDone
from shoal.api.codecs import commit_response, id_of
from shoal.api.results import Results
from shoal.api.transaction import Begin
from shoal.engines.stopping import stopped_by
from shoal.errors import InvalidInput, NotFound
from shoal.lake.branches import as_id
from shoal.local.lake_transactions import LocalLakeTransaction
from shoal.local.transactions import LocalTransaction
from shoal.model.fields import time_value
from shoal.model.values import int64, record
from shoal.service.answers import Answer
from shoal.service.calls import Call, id_texts
from shoal.service.handlers.queries import Output, stream
from shoal.service.handlers.verbs import announce_commit, pieces
from shoal.service.transactions import Open, Scene


def begin(call: Call) -> Answer:
    """A new transaction on a branch."""
    asked = call.record({"isolation": str, "expires": (int, float)})
    seconds = asked.get("expires")
    op, pool = call.operation(), call.pool()
    transaction = call.service.transactions.find(op, call.subject, scene_of(call))
    if transaction is None:
        expires = None if seconds is None else float(seconds)
        begun = call.lake.do(Begin(pool.id, call.path["branch"], asked.get("isolation", "snapshot"), expires, op))
        assert isinstance(begun, LocalTransaction)  # a service stages in this process
        transaction = call.service.transactions.add(begun, call.subject, scene_of(call))
    assert isinstance(transaction, LocalTransaction)
    return record([
        ("id", id_of(transaction.id)),
        ("base", id_of(transaction.base)),
        ("expires", time_value(int(transaction.expires * 1e9))),
        ("position", int64(transaction.session.position)),
    ])  # fmt: skip


def load(call: Call) -> None:
    """Stage the body."""
    with opened(call) as transaction:
        op = call.step() if call.body.is_whole else call.step
        mode: Any = call.params.get("mode", "load")
        _part(call, transaction).write(mode, pieces(call), "auto", call.read_options(), op)
    call.service.metrics.loaded.inc(call.body.size)


def update(call: Call) -> None:
    """Stage a change of records."""
    body = call.record({"where": str, "program": str})
    if not body.get("where") or not body.get("program"):
        raise InvalidInput("an update has where (a condition) and program (what changes)")
    with opened(call) as transaction:
        _part(call, transaction).update(body["where"], body["program"], op=call.step())


def delete(call: Call) -> None:
    """Stage the removal of data objects, or of records."""
    body = call.record({"object_ids": list, "where": str})
    where, ids = body.get("where") or None, id_texts(body.get("object_ids", []))
    if where is not None and ids:
        raise InvalidInput("delete by object_ids or by where, not both")
    with opened(call) as transaction:
        _part(call, transaction).delete(ids, where=where, op=call.step())


def query(call: Call) -> Answer:
    """Ask the lake as the transaction sees it."""
    program = call.record({"query": str}).get("query", "")

    def ask(output: Output) -> Results:
        with stopped_by(output.stop), opened(call) as transaction:
            return _asked(call, transaction).query(program)

    return stream(call, ask)


def sql(call: Call) -> Answer:
    """Run a statement in SQL; what it changes is staged."""
    body = call.record({"statement": str})
    if "statement" not in body:
        raise InvalidInput("the body has to have a statement")
    op = call.step()

    def ask(output: Output) -> Results:
        with stopped_by(output.stop), opened(call) as transaction:
            return _asked(call, transaction).sql(body["statement"], op=op)

    return stream(call, ask)


def commit(call: Call) -> Answer:
    """Put it all onto the branch; again, if the answer to the first time was lost."""
    branch = call.path["branch"]
    try:
        with opened(call) as transaction:
            assert isinstance(transaction, LocalTransaction)
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
    with opened(call) as transaction:
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


# ---- the transaction of a request


@contextmanager
def opened(call: Call) -> Iterator[Open]:
    """The transaction that the path names, while nobody else works with it, if the caller may still change it."""
    with call.service.transactions.of(call.path["id"], call.subject, scene_of(call)) as transaction:
        if isinstance(transaction, LocalLakeTransaction):
            require_write(call, transaction)
        yield transaction


def scene_of(call: Call) -> Scene:
    """Where the path looks for transactions."""
    return (call.pool().id, call.path["branch"]) if "branch" in call.path else None


def require_write(call: Call, transaction: LocalLakeTransaction) -> None:
    """NotFound or Forbidden unless the caller may write to all pools of a transaction now."""
    for info in transaction.infos:
        call.service.access.require(call.identity, info.pool, "write", info.place)


def _part(call: Call, transaction: Open) -> LocalTransaction:
    """What a step changes: the branch of the path, or that of the parameter `place`."""
    if isinstance(transaction, LocalTransaction):
        return transaction
    place = call.params.get("place")
    if place is None:
        raise InvalidInput(f"the parameter place has to say which branch: {', '.join(transaction.places)}")
    return transaction.part(place)


def _asked(call: Call, transaction: Open) -> Open:
    """What a query is asked of: with `place` it may leave out the pool."""
    return _part(call, transaction) if "place" in call.params else transaction
