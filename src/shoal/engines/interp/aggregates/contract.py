"""What an aggregate is. Its state can leave as a partial value and be merged elsewhere, later."""

from __future__ import annotations

from typing import Protocol

from shoal.engines.stopping import Stop
from shoal.model.node import frozen
from shoal.model.values import Value, is_missing

DEFAULT_VALUE_BYTES = 1 << 30


@frozen
class Limits:
    """What one aggregate may hold."""

    value_bytes: int = DEFAULT_VALUE_BYTES
    """The size of the values in one collect or union, in their binary form; the oldest ones go first."""
    stop: Stop | None = None
    """Where it is given, what grows beyond that fails instead."""


class Aggregate(Protocol):
    """A running result over values. No method raises, whatever the values."""

    def consume(self, value: Value) -> None:
        """Take in one value, which must not be missing: see `feed`."""

    def result(self) -> Value:
        """The result so far."""

    def partial(self) -> Value:
        """The whole state as a value of a type that can be written anywhere."""

    def merge(self, partial: Value) -> None:
        """Take in the state of an aggregate of the same name, as if its values had come after the ones here."""


def feed(aggregate: Aggregate, value: Value) -> None:
    """Give a value to an aggregate, unless it is missing. Nulls, quiet and other errors do go in."""
    if not is_missing(value):
        aggregate.consume(value)
