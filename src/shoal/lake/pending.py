"""Pending entries: what the journal of a pool says of transactions over several pools, until they are rolled forward.

A pending entry means nothing by itself. The decision about its transaction says whether the branch is at its commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.errors import CorruptData
from shoal.ids import Id
from shoal.lake.decisions import Positions, format_positions, parse_positions
from shoal.model import types as t
from shoal.model.fields import KSUID, NO_ID, get, get_data, get_id, get_or
from shoal.model.node import frozen
from shoal.model.values import Value

Participants = tuple[tuple[Id, str], ...]
PENDING, DEPENDS = "pending", "depends"
_NEEDS = t.array(t.record((("pool", KSUID), ("position", t.UINT64))))
_TYPE = t.array(t.record((
    ("branch", t.STRING), ("txn", KSUID), ("commit", KSUID), ("base", KSUID), ("position", t.UINT64),
    ("depends", _NEEDS), ("at", t.TIME), ("until", t.TIME),
    ("participants", t.array(t.record((("pool", KSUID), ("branch", t.STRING))))), ("op", KSUID),
)))  # fmt: skip


@frozen
class Pending:
    """A commit that a transaction is about to put onto a branch."""

    branch: str
    txn: Id
    commit: Id | None
    """The tip that the branch gets; None if it is empty, and only read."""
    base: Id | None
    """The tip before it."""
    position: int
    """Where it is in the journal."""
    needs: Positions
    """What its pool depended on."""
    at: int
    """When it was made, in nanoseconds since 1970."""
    until: int
    """From then on anybody may abort the transaction."""
    participants: Participants
    """All branches of the transaction, each with its pool."""
    op: Id = NO_ID
    """The operation that it is an attempt at; NO_ID if a writer of an earlier version has written it."""


def pending_in(entries: Mapping[str, Value | None]) -> tuple[Pending, ...]:
    """What is pending in the state of a journal, or in a change of it."""
    value = entries.get(PENDING)
    if value is None:
        return ()
    if not isinstance(value.type, t.Array):
        raise CorruptData(f"{PENDING}: not a list of pending commits (written by a newer version?)")
    participants: dict[Id, Participants] = {}
    return tuple(_parse(Value(value.type.elem, data), participants) for data in value.data)


def _parse(value: Value, participants: dict[Id, Participants]) -> Pending:
    """An entry. Of the entries of one transaction the first has its participants."""
    txn, commit, base = (get_id(value, name, PENDING) for name in ("txn", "commit", "base"))
    branch, position, at, until = (get_data(value, name, PENDING) for name in ("branch", "position", "at", "until"))
    own = tuple((Id(pool), name) for pool, name in get_data(value, "participants", PENDING))
    return Pending(
        branch=branch,
        txn=txn,
        commit=None if commit == NO_ID else commit,
        base=None if base == NO_ID else base,
        position=position,
        needs=parse_positions(get(value, "depends", PENDING)),
        at=at,
        until=until,
        participants=participants.setdefault(txn, own),
        op=Id(get_or(value, "op", NO_ID)),
    )


def format_pending(pending: Sequence[Pending]) -> Value | None:
    """What is pending as it is stored; None if nothing is."""
    named: set[Id] = set()
    rows = []
    for each in pending:
        participants = () if each.txn in named else each.participants
        named.add(each.txn)
        rows.append((
            each.branch, each.txn, each.commit or NO_ID, each.base or NO_ID, each.position,
            format_positions(each.needs).data, each.at, each.until, participants, each.op,
        ))  # fmt: skip
    return Value(_TYPE, tuple(rows)) if rows else None


def needs_in(entries: Mapping[str, Value | None]) -> dict[Id, int]:
    """What a pool depends on: the positions that a reader must have reached in other pools."""
    value = entries.get(DEPENDS)
    return {} if value is None else parse_positions(value)


def joined(*needs: Positions) -> dict[Id, int]:
    """All of these dependencies."""
    out: dict[Id, int] = {}
    for each in needs:
        for pool, position in each.items():
            out[pool] = max(position, out.get(pool, 0))
    return out
