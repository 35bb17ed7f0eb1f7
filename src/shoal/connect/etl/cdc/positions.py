"""Positions: how far the pool of a table is, as each commit of a job says in its metadata.

    {cdc: {name: "shop", source: "shop", lsn: 26401456, txid: "733", ts_ms: 1794814382291, cursor: 40, tables: [...]}}

`lsn` is the state of the source that the pool has with this commit; it is null while a snapshot is only partly there,
which is a state that the source never had. So the table at some place in the log is the newest commit whose `lsn` is
not greater. Each pool has a position of its own: a transaction that changes two pools moves both in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shoal.api.branch import Branch
from shoal.api.infos import CommitInfo
from shoal.errors import CorruptData, InvalidInput
from shoal.model import types as t
from shoal.model.fields import get_or
from shoal.model.node import frozen
from shoal.model.values import Value

_TABLE = t.record(
    (
        ("table", t.STRING),
        ("lsn", t.INT64),
        ("last", t.INT64),
        ("snapshot", t.INT64),
        ("is_open", t.BOOL),
        ("is_first", t.BOOL),
        ("repeats", t.BOOL),
        ("seqno", t.INT64),
    )
)
_META = t.record(
    (
        (
            "cdc",
            t.record(
                (
                    ("name", t.STRING),
                    ("source", t.STRING),
                    ("lsn", t.INT64),
                    ("txid", t.STRING),
                    ("ts_ms", t.INT64),
                    ("cursor", t.INT64),
                    ("tables", t.array(_TABLE)),
                )
            ),
        ),
    )
)
NEVER = -1
"""Comes before every place in the log."""


@frozen
class Position:
    """How far the pool of a table is."""

    lsn: int = NEVER
    """The end of the last transaction that was applied, or the last event, where events have no transactions."""
    last: int = NEVER
    """The commit before that event."""
    snapshot: int = NEVER
    """The place in the log of the newest snapshot."""
    is_open: bool = False
    """Whether rows of that snapshot are to come."""
    is_first: bool = False
    """Whether only its first row came, which does not say that more follow."""
    repeats: bool = False
    """Whether the pool had rows before it: those that it lacks are to be deleted at its end."""
    seqno: int = 0
    """Up to this raw record, rows of snapshots and events without a transaction are applied."""

    @property
    def floor(self) -> int:
        """Transactions that end here, or before, are in the pool."""
        return max(self.lsn, self.snapshot)


@frozen
class Stamp:
    """What a commit says of the source."""

    lsn: int | None
    txid: str | None
    ts_ms: int


@frozen
class Said:
    """What the newest commit of a job says of a pool."""

    commit: str
    position: Position
    cursor: int
    """All raw records before this one are applied."""


def format_meta(name: str, source: str, stamp: Stamp, cursor: int, tables: Mapping[str, Position]) -> Value:
    """The metadata of a commit."""
    rows = tuple(
        (table, at.lsn, at.last, at.snapshot, at.is_open, at.is_first, at.repeats, at.seqno)
        for table, at in sorted(tables.items())
    )
    return Value(_META, ((name, source, stamp.lsn, stamp.txid, stamp.ts_ms, cursor, rows),))


def read_said(branch: Branch, name: str, table: str, tip: str | None, after: int | None) -> Said | None:
    """What the newest commit of a job says of a table, from a commit of its branch on; None if there is none."""
    if tip is None:
        return None
    parent: str | None = None
    for commit in branch.log(tip):
        data, parent = _data(commit), commit.parent
        if data is not None and data[0] == name:
            position = next((Position(*each[1:]) for each in data[6] if each[0] == table), None)
            if position is not None:
                return Said(commit.id, position, data[5])
    if parent is not None and after is None:  # the beginning was cut off
        raise InvalidInput(
            f"{branch!r}: its history ends before the last commit of the job {name} (say `after: SEQNO`, the raw "
            "record behind which it goes on; 0 applies all again)"
        )
    return None


def commit_at(branch: Branch, lsn: int, name: str | None = None) -> str | None:
    """The newest commit of a branch with the state of the table at a place in the log of its source (LSN).

    None if the branch begins later. A `name` is that of the job, if several have written to the branch.

    >>> commit_at(lake.pool("orders"), 26401456)  # doctest: +SKIP
    '3M9ITSlPteFXUdEjJbvFOh5vzzO'
    """
    return next((commit for commit, at in _states(branch.log(), name) if at <= lsn), None)


def _states(commits: Iterable[CommitInfo], name: str | None) -> Iterator[tuple[str, int]]:
    for commit in commits:
        data = _data(commit)
        if data is not None and data[2] is not None and name in (None, data[0]):
            yield commit.id, data[2]


def parse_lsn(text: str) -> int:
    """The number of a place in the log as PostgreSQL writes it, such as `0/192D7B0`.

    >>> parse_lsn("0/192D7B0")
    26400688
    """
    high, slash, low = text.partition("/")
    try:
        if slash:
            return (int(high, 16) << 32) + int(low, 16)
        return int(text)
    except ValueError:
        raise InvalidInput(f"not a place in the log of PostgreSQL: {text!r} (such as 0/192D7B0)") from None


def _data(commit: CommitInfo) -> tuple[Any, ...] | None:
    meta = commit.meta
    if not isinstance(meta.type.under, t.Record) or meta.data is None or meta.field("cdc") is None:
        return None
    if meta.type.under is not _META:
        raise CorruptData(f"metadata of a cdc that cannot be read: {get_or(meta, 'cdc', None)!r} (by a newer version?)")
    data: tuple[Any, ...] = meta.data[0]
    return data
