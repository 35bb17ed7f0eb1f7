"""`count`. Nulls and errors count like any other value."""

from __future__ import annotations

from shoal.model import types as t
from shoal.model.values import Value


class Count:
    """How many values there are."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def consume(self, value: Value) -> None:
        self._count += 1

    def result(self) -> Value:
        return Value(t.UINT64, self._count)

    def partial(self) -> Value:
        return self.result()

    def merge(self, partial: Value) -> None:
        self._count += partial.data
