"""Transactions over several pools: changes to their branches that happen together, or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, Unpack

from shoal.api.handles import public_names
from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.api.requests import NO_NOTE, Note, NoteArgs, Op, Request
from shoal.api.results import Results
from shoal.api.transaction import Isolation, Transaction
from shoal.errors import InvalidInput
from shoal.model.node import frozen


class LakeTransaction(ABC):
    """Staged changes to branches of several pools, each named like `orders` or `items@dev`.

    Queries see all pools in one consistent state: that of the beginning, with what was staged since.
    """

    is_done: bool = False
    """Whether it was committed or abandoned."""

    def __repr__(self) -> str:
        return f"<transaction {self.id} of {', '.join(self.places)}, {'ended' if self.is_done else 'open'}>"

    def __dir__(self) -> list[str]:
        return public_names(LakeTransaction, without=("end", "give_up"))

    @property
    @abstractmethod
    def id(self) -> str:
        """The id of the transaction, under which `from :transactions` lists it: a commit that is retried happens once.

        `pool@ID` is the commit that it made in a pool.
        """

    @property
    @abstractmethod
    def places(self) -> tuple[str, ...]:
        """Its branches, as `pool@branch`."""

    @property
    @abstractmethod
    def expires(self) -> float:
        """From then on it cannot be committed, in seconds since 1970."""

    @abstractmethod
    def part(self, place: str) -> Transaction:
        """What it does on one branch, such as `orders` or `items@dev`: changes are staged there."""

    def load(
        self,
        place: str,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        op: Op = None,
    ) -> None:
        """Stage data for a branch; a retry with the same `op` stages nothing."""
        self.part(place).load(data, format=format, options=options, op=op)

    def upsert(
        self,
        place: str,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        op: Op = None,
    ) -> None:
        """Stage records that replace those with the same primary key."""
        self.part(place).upsert(data, format=format, options=options, op=op)

    def update(self, place: str, where: str, program: str, *, op: Op = None) -> None:
        """Stage a change of the records for which a condition holds, by a program."""
        self.part(place).update(where, program, op=op)

    def delete(
        self, place: str, ids: Sequence[str] = (), *, where: str | None = None, keys: Any = None, op: Op = None
    ) -> None:
        """Stage the deletion of data objects, of the records that match a filter, or of those with primary keys."""
        self.part(place).delete(ids, where=where, keys=keys, op=op)

    @abstractmethod
    def query(self, program: str) -> Results:
        """Query the lake as the transaction sees it."""

    @abstractmethod
    def sql(self, statement: str, *, op: Op = None) -> Results:
        """Run a statement in SQL on the lake as the transaction sees it; what it changes is staged."""

    @abstractmethod
    def take_over(self, *others: Self) -> None:
        """Take over the staged changes of copies of this transaction."""

    def commit(self, **note: Unpack[NoteArgs]) -> Mapping[str, str]:
        """Commit all that is staged; the ids of the commits by branch. Conflict if another writer is in the way."""
        commits = self.end(Note(**note))
        assert commits is not None
        return commits

    @abstractmethod
    def end(self, note: Note = NO_NOTE, *, if_changed: bool = False) -> Mapping[str, str] | None:
        """Commit; with `if_changed` a transaction that changed nothing ends without commits."""

    @abstractmethod
    def abandon(self) -> None:
        """Discard the staged changes."""

    def give_up(self) -> None:
        """Abandon it because of an error."""
        if not self.is_done:
            self.abandon()

    @abstractmethod
    def save(self) -> str:
        """A text by which another process goes on with it: `lake.resume(text)`. What is staged stays in the lake.

        A serializable transaction cannot be saved: what it has read is known to this process alone.
        """


def require_whole(whole: str | None) -> None:
    """InvalidInput if what is to end is a part of a transaction over several pools, by the id of that."""
    if whole is not None:
        raise InvalidInput(f"this is one branch of transaction {whole}, which ends as a whole (end that)")


@frozen
class BeginOver(Request[LakeTransaction]):
    """Begin a transaction on branches of several pools."""

    places: tuple[str, ...]
    isolation: Isolation = "snapshot"
    expires: float | None = None
    op: Op = None


@frozen
class Resume(Request[LakeTransaction]):
    """Go on with a transaction that was saved."""

    saved: str


@contextmanager
def all_committed(transaction: LakeTransaction, note: Note) -> Iterator[LakeTransaction]:
    """Commit a transaction at the end, if it changed anything; abandon it on an error."""
    try:
        yield transaction
    except BaseException:
        transaction.give_up()
        raise
    if not transaction.is_done:
        transaction.end(note, if_changed=True)
