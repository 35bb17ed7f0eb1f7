"""Transactions: changes to one branch that become one commit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self, Unpack

from shoal.api.handles import public_names
from shoal.api.options import DEFAULT_READ, ReadOptions
from shoal.api.requests import NO_NOTE, Note, NoteArgs, Op, Request
from shoal.api.results import Results
from shoal.model.node import frozen

Isolation = Literal["snapshot", "serializable"]


class Transaction(ABC):
    """Staged changes to one branch. Pickled copies stage changes in other processes; `take_over` collects them."""

    is_done: bool = False
    """Whether it was committed or abandoned."""

    def __repr__(self) -> str:
        return f"<transaction {self.id}, {'ended' if self.is_done else 'open'}>"

    def __dir__(self) -> list[str]:
        return public_names(Transaction, without=("end", "give_up"))

    @property
    @abstractmethod
    def id(self) -> str:
        """The id of the transaction: a commit that is retried with it happens once."""

    @property
    @abstractmethod
    def base(self) -> str | None:
        """The commit that it is based on."""

    @abstractmethod
    def load(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        op: Op = None,
    ) -> None:
        """Stage data; a retry with the same `op` stages nothing."""

    @abstractmethod
    def upsert(
        self,
        data: Any,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        options: ReadOptions = DEFAULT_READ,
        op: Op = None,
    ) -> None:
        """Stage records that replace those with the same primary key."""

    @abstractmethod
    def update(self, where: str, program: str, *, op: Op = None) -> None:
        """Stage a change of the records for which a condition holds, by a program."""

    @abstractmethod
    def delete(self, ids: Sequence[str] = (), *, where: str | None = None, keys: Any = None, op: Op = None) -> None:
        """Stage the deletion of data objects, of the records that match a filter, or of those with primary keys."""

    @abstractmethod
    def query(self, program: str) -> Results:
        """Query the lake as the transaction sees it; a program without a source reads the branch."""

    @abstractmethod
    def sql(self, statement: str, *, op: Op = None) -> Results:
        """Run a statement in SQL on the lake as the transaction sees it; what it changes is staged."""

    @abstractmethod
    def take_over(self, *others: Self) -> None:
        """Take over the staged changes of copies of this transaction."""

    def commit(self, **note: Unpack[NoteArgs]) -> str:
        """Commit the staged changes; returns the commit id. Conflict if another writer changed data it depends on."""
        commit = self.end(Note(**note))
        assert commit is not None
        return commit

    @abstractmethod
    def end(self, note: Note = NO_NOTE, *, if_changed: bool = False) -> str | None:
        """Commit; with `if_changed` a transaction that changed nothing ends without a commit."""

    @abstractmethod
    def abandon(self) -> None:
        """Discard the staged changes."""

    def give_up(self) -> None:
        """Abandon it because of an error."""
        if not self.is_done:
            self.abandon()


@frozen
class Begin(Request[Transaction]):
    """Begin a transaction on the tip of a branch."""

    pool: str
    branch: str
    isolation: Isolation = "snapshot"
    expires: float | None = None
    op: Op = None


@contextmanager
def committed(transaction: Transaction, note: Note) -> Iterator[Transaction]:
    """Commit a transaction at the end, if it changed anything; abandon it on an error."""
    try:
        yield transaction
    except BaseException:
        transaction.give_up()
        raise
    if not transaction.is_done:
        transaction.end(note, if_changed=True)
