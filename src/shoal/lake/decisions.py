"""Decisions: whether a transaction over several pools happened. Each is one object, created by put-if-missing.

A decision is never deleted: a writer that stalled could otherwise create another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import count

from shoal.errors import CorruptData, NotFound, OutcomeUnknown
from shoal.ids import Id, to_text
from shoal.lake.claims import Patience, claim, unknown
from shoal.lake.sealed import seal, unseal
from shoal.model import types as t
from shoal.model.fields import KSUID, NO_ID, get, get_data, get_id, id_value, named, time_value
from shoal.model.node import frozen
from shoal.model.values import NULL, Value, string
from shoal.storage.store import ObjectStore, dropping_damage

FOLDER = "transactions"
"""The folder of a lake that has its decisions."""
Positions = Mapping[Id, int]
"""A position in the journal of each of some pools."""
_POSITIONS = t.array(t.record((("pool", KSUID), ("position", t.UINT64))))
_PARTS = t.array(t.record((("pool", KSUID), ("branch", t.STRING), ("commit", KSUID))))
_COMMITTED, _ABORTED = "committed", "aborted"
_TIME = 4
"""The bytes of an id that are its time."""


@frozen
class Part:
    """What a transaction did on one branch."""

    pool: Id
    branch: str
    commit: Id | None
    """None: the branch is empty and was only read, or the transaction was aborted."""

    @property
    def place(self) -> tuple[Id, str]:
        """The pool and the branch."""
        return self.pool, self.branch


@frozen
class Decision:
    """Whether a transaction happened, and when."""

    txn: Id
    is_committed: bool
    at: int
    """In nanoseconds since 1970; not before any of its pending entries."""
    parts: tuple[Part, ...] = ()
    """Also one that was aborted says on which branches, if its writer knew them."""
    needs: Positions = field(default_factory=dict)
    """For each pool, the position that a reader of any part must have reached."""
    author: str = ""
    message: str = ""
    meta: Value = NULL
    op: Id = NO_ID
    """The operation that it is an attempt at, which is what the transaction is known by."""

    def parts_in(self, pool: Id) -> list[Part]:
        """What it did in a pool; nothing if it was aborted."""
        return [part for part in self.parts if part.pool == pool] if self.is_committed else []

    def names(self, pool: Id, branch: str, commit: Id | None) -> bool:
        """Whether a commit on a branch is part of what was committed."""
        return self.is_committed and Part(pool, branch, commit) in self.parts


def attempts(op: Id) -> Iterator[Id]:
    """The ids of the transactions that are tried, one after the other, to do an operation.

    The first is the operation. Each further one is tried only if the one before was aborted, so at most one is
    committed, and everybody who knows the operation finds it.
    """
    yield op
    for number in count(1):
        digest = hashlib.sha256(b"%b %d" % (op, number)).digest()
        yield Id(op[:_TIME] + digest[: len(op) - _TIME])


class Decisions:
    """The decisions of a lake. They never change, so each is read once."""

    def __init__(self, store: ObjectStore, patience: Patience = Patience()) -> None:
        self._store = store
        self._patience = patience
        self._known: dict[Id, Decision] = {}

    def find(self, txn: Id) -> Decision | None:
        """The decision about a transaction; None if there is none yet."""
        known = self._known.get(txn)
        if known is not None:
            return known
        key = _key(txn)
        try:
            return self._keep(self._read(key))
        except NotFound:
            return None

    def committed(self, op: Id) -> Decision | None:
        """The transaction that did an operation; None if there is none yet."""
        for txn in attempts(op):
            decision = self.find(txn)
            if decision is None or decision.is_committed:
                return decision
        raise AssertionError

    def decide(self, decision: Decision) -> Decision:
        """Decide about a transaction; the decision that counts, which is that of the first writer."""
        key = _key(decision.txn)
        try:
            is_ours = claim(self._store, key, seal([_format(decision)], key), self._patience)
        except OutcomeUnknown as e:
            raise unknown(decision.txn, e) from e
        first = self._keep(decision) if is_ours else self.find(decision.txn)
        if first is None:
            raise CorruptData(f"{key}: this decision is gone (restore it from a backup)")
        return first

    def all(self) -> Iterator[Decision]:
        """All decisions, the oldest first."""
        keys = [listed.key for listed in self._store.list(f"{FOLDER}/")]
        yield from sorted(map(self._read, keys), key=lambda decision: (decision.at, decision.txn))

    def _read(self, key: str) -> Decision:
        with dropping_damage(self._store, key):
            return _parse(unseal(self._store.get(key), key), key)

    def _keep(self, decision: Decision) -> Decision:
        if len(self._known) >= 10_000:
            self._known.clear()
        self._known[decision.txn] = decision
        return decision


def _key(txn: Id) -> str:
    return f"{FOLDER}/{to_text(txn)}.zng"


# ---- as values


def format_positions(positions: Positions) -> Value:
    """Positions as they are stored, by the ids of their pools."""
    return Value(_POSITIONS, tuple((pool, positions[pool]) for pool in sorted(positions)))


def parse_positions(value: Value) -> dict[Id, int]:
    """The inverse of `format_positions`."""
    return {Id(pool): int(position) for pool, position in value.data or ()}


def _format(decision: Decision) -> Value:
    parts = tuple((part.pool, part.branch, part.commit or NO_ID) for part in decision.parts)
    return named(
        "Decision",
        ("txn", id_value(decision.txn)),
        ("decision", string(_COMMITTED if decision.is_committed else _ABORTED)),
        ("at", time_value(decision.at)),
        ("parts", Value(_PARTS, parts)),
        ("depends", format_positions(decision.needs)),
        ("author", string(decision.author)),
        ("message", string(decision.message)),
        ("meta", decision.meta),
        ("op", id_value(decision.op)),
    )


def _parse(values: list[Value], where: str) -> Decision:
    if not values:
        raise CorruptData(f"{where}: a decision without its record")
    (value, *_) = values
    decision = get_data(value, "decision", where)
    if decision not in (_COMMITTED, _ABORTED):
        raise CorruptData(f"{where}: unknown decision {decision!r} (written by a newer version?)")
    parts = (
        Part(Id(pool), branch, None if commit == NO_ID else Id(commit))
        for pool, branch, commit in get_data(value, "parts", where)
    )
    return Decision(
        txn=get_id(value, "txn", where),
        is_committed=decision == _COMMITTED,
        at=get_data(value, "at", where),
        parts=tuple(parts),
        needs=parse_positions(get(value, "depends", where)),
        author=get_data(value, "author", where),
        message=get_data(value, "message", where),
        meta=get(value, "meta", where),
        op=get_id(value, "op", where),
    )


def message_of(decision: Decision, pools: Mapping[Id, str]) -> str:
    """The message of a transaction; without one, the branches that it has changed in these pools, by their names."""
    if decision.message or not decision.is_committed:
        return decision.message
    places = sorted(f"{pools[part.pool]}@{part.branch}" for part in decision.parts if part.pool in pools)
    return f"changed {', '.join(places)}"


def show_decision(decision: Decision, pools: Mapping[Id, str]) -> Value:
    """A decision as meta-queries show it, with what was committed in these pools, by their names."""
    shown = tuple(
        (part.pool, pools[part.pool], part.branch, part.commit or NO_ID)
        for part in decision.parts
        if part.pool in pools and decision.is_committed
    )
    typ = t.array(t.record((("pool", KSUID), ("name", t.STRING), ("branch", t.STRING), ("commit", KSUID))))
    return named(
        "lake.Transaction",
        ("id", id_value(decision.txn if decision.op == NO_ID else decision.op)),
        ("state", string(_COMMITTED if decision.is_committed else _ABORTED)),
        ("ts", time_value(decision.at)),
        ("author", string(decision.author)),
        ("message", string(message_of(decision, pools))),
        ("meta", decision.meta),
        ("parts", Value(typ, shown)),
    )
