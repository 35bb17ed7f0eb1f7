"""`count`, `and` and `or`. Nulls and errors count like any other value; of `and` and `or` only bools decide."""

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


class _Logical:
    """Holds a bool until one comes that settles it."""

    __slots__ = ("_result",)
    _settling: bool

    def __init__(self) -> None:
        self._result: bool | None = None

    def consume(self, value: Value) -> None:
        if value.data is not None and value.type.under is t.BOOL and self._result is not self._settling:
            self._result = value.data

    def result(self) -> Value:
        return Value(t.BOOL, self._result)

    def partial(self) -> Value:
        return self.result()

    def merge(self, partial: Value) -> None:
        self.consume(partial)


class And(_Logical):
    """Whether all bools are true; null if there are none."""

    __slots__ = ()
    _settling = False


class Or(_Logical):
    """Whether some bool is true; null if there are none."""

    __slots__ = ()
    _settling = True
