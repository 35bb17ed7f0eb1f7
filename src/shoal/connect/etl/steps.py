"""What a transform is, and what a round of it gives.

A transform is settings; `open` makes a worker of it, which remembers between rounds what is unfinished. All that a
round makes goes into one commit. If that fails, workers are forgotten, and new ones read what the pools say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from shoal.connect.etl.expiry import Clock, Limits, Reason
from shoal.connect.etl.places import Place
from shoal.connect.etl.raw import News, Snapshot
from shoal.connect.etl.seqnos import Run
from shoal.model.node import frozen
from shoal.model.values import Value

Mode = Literal["load", "upsert", "delete"]


@frozen
class Common:
    """The settings that transforms of all kinds have."""

    where: str
    """Where they are, for errors."""
    program: str
    place: Place
    topic: str
    """The topic of what it gives."""
    name: str
    """What it is called in the pools; the topic, if nothing else is said."""
    key: str | None = None
    """An expression over what it gives."""


@frozen
class Output:
    """A value that a transform gives."""

    seqno: int
    """The greatest of the records that it comes from."""
    place: Place
    topic: str
    value: Value
    key: Value | None = None


@frozen
class Expired:
    """Records that were given up."""

    numbers: tuple[int, ...]
    txn: Value
    reason: Reason


@frozen
class Write:
    """Another change of a round, of a kind that does more than add records to topics."""

    place: Place
    mode: Mode
    data: Sequence[Any]


@dataclass(slots=True)
class Step:
    """What a round of a transform gives. What comes from one record is in the order of emission."""

    outputs: list[Output] = field(default_factory=list)
    expired: list[Expired] = field(default_factory=list)
    completed: list[tuple[int, str, Value]] = field(default_factory=list)
    """Transactions to remember: the number at which each was complete, the name of its transform, its id."""
    writes: list[Write] = field(default_factory=list)


@frozen
class Round:
    """What a round works on."""

    raw: Snapshot
    news: News
    clock: Clock


@frozen
class Past:
    """What is known of the rounds before, in another process."""

    raw: Snapshot
    unfinished: list[Run]
    """The numbers of records that some transform waits for more with."""
    completed: Sequence[tuple[int, str, Value]]


class Worker(ABC):
    """A transform at work."""

    @abstractmethod
    def step(self, work: Round) -> Step:
        """What comes of the new records, and of those that are unfinished."""

    def unfinished(self) -> Iterable[int]:
        """The numbers of the records that it has read, and waits for more."""
        return ()


class Transform(ABC):
    """The settings of a transform."""

    common: Common

    @property
    @abstractmethod
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads; none stands for all."""

    @property
    @abstractmethod
    def condition(self) -> str:
        """Which records it takes, unless a transform before it takes them."""

    @abstractmethod
    def check(self) -> None:
        """InvalidInput if its programs do not compile."""

    @abstractmethod
    def open(self, takes: str, limits: Limits | None, past: Past) -> Worker:
        """A worker that goes on. `takes` is a condition: the records that no transform before it takes."""
