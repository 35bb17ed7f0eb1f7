"""`dcount`. Its library needs numpy, so this module is imported when the first sketch is made."""

from __future__ import annotations

from datasketches import hll_sketch, hll_union, tgt_hll_type  # type: ignore[import-untyped]

from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import encode, encode_type

_LG_K = 14
"""Registers of a full sketch, as a power of two: an error of about one in a hundred."""


class DistinctCount:
    """About how many different values there are, by HyperLogLog; up to some hundreds it is exact.

    Values differ by type and binary form. A name on top of the type does not count, and a
    null is the same as an empty value of its type.
    """

    __slots__ = ("_sketch",)

    def __init__(self) -> None:
        self._sketch = hll_union(_LG_K)

    def consume(self, value: Value) -> None:
        key = encode_type(value.type.under) + (encode(value.type, value.data) or b"")
        self._sketch.update(key.decode("latin-1"))  # it takes text, so each byte becomes a character

    def result(self) -> Value:
        # The estimate of a sketch that was never merged depends on the order of its values; merged, it does not.
        sketch, settled = self._sketch.get_result(tgt_hll_type.HLL_8), hll_union(_LG_K)
        settled.update(sketch)
        settled.update(sketch)
        return Value(t.UINT64, round(settled.get_estimate()))

    def partial(self) -> Value:
        return Value(t.BYTES, self._sketch.get_result(tgt_hll_type.HLL_8).serialize_compact())

    def merge(self, partial: Value) -> None:
        self._sketch.update(hll_sketch.deserialize(partial.data))
