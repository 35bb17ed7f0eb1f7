"""`and` and `or`. Only bools count; a null or anything else leaves the result as it is."""

from __future__ import annotations

from shoal.model import types as t
from shoal.model.values import Value


class _Logical:
    """Holds a bool until one comes that settles it."""

    __slots__ = ("_held",)
    _settling: bool

    def __init__(self) -> None:
        self._held: bool | None = None

    def consume(self, value: Value) -> None:
        if value.data is not None and value.type.under is t.BOOL and self._held is not self._settling:
            self._held = value.data

    def result(self) -> Value:
        return Value(t.BOOL, self._held)

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
