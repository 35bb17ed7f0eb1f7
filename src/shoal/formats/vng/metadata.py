"""VNG metadata: records whose kind is the name of their type. A list of several kinds is a list of a union."""

from __future__ import annotations

from shoal.errors import InvalidInput
from shoal.formats.vng.segments import SegmentReader
from shoal.model import types as t
from shoal.model import values as v
from shoal.model.node import frozen
from shoal.model.values import Value
from shoal.model.zcode import Data

MAX_COUNT = 2**31
"""More values, elements or bytes than this are never believed."""


def make(kind: str, fields: dict[str, Value]) -> Value:
    """Metadata of this kind."""
    body = v.record(fields.items())
    return Value(t.named(kind, body.type), body.data)


def count(n: int) -> Value:
    """A number of values."""
    if n >= MAX_COUNT:
        raise InvalidInput(f"a column would have {n} values, more than fit")
    return Value(t.UINT32, n)


@frozen
class Meta:
    """Metadata as read: its kind and its fields, none of which is believed to be there."""

    kind: str
    fields: dict[str, Value]

    @classmethod
    def of(cls, value: Value) -> Meta:
        """The metadata in a value."""
        kind, typ, data = "", value.type, value.data
        while data is not None:
            if isinstance(typ, t.Named):
                kind, typ = typ.name, typ.inner
            elif isinstance(typ, t.Union):
                typ, data = typ.types[data[0]], data[1]
            elif isinstance(typ, t.Record):
                return cls(kind, {f.name: Value(f.type, d) for f, d in zip(typ.fields, data, strict=True)})
            else:
                break
        raise InvalidInput("expected metadata, a record of a named type")

    def value(self, name: str) -> Value:
        """The field of this name."""
        if name not in self.fields:
            raise InvalidInput(f"expected a field {name!r} in metadata of kind {self.kind!r}")
        return self.fields[name]

    def _data(self, name: str, want: type, what: str) -> Data:
        data = self.value(name).data
        if type(data) is not want:
            raise InvalidInput(f"expected {what} as {name!r} of metadata of kind {self.kind!r}")
        return data

    def count(self, name: str, limit: int = MAX_COUNT) -> int:
        """A count, size or offset."""
        n: int = self._data(name, int, "a count")
        if not 0 <= n <= limit:
            raise InvalidInput(f"{name!r} of metadata of kind {self.kind!r} is {n}, not a plausible count")
        return n

    def text(self, name: str) -> str:
        """A string."""
        text: str = self._data(name, str, "a string")
        return text

    def type_value(self, name: str) -> t.Type:
        """A type value."""
        typ = self.value(name).data
        if not isinstance(typ, t.Type):
            raise InvalidInput(f"expected a type as {name!r} of metadata of kind {self.kind!r}")
        return typ

    def child(self, name: str) -> Meta:
        """The metadata of the values below this one."""
        return Meta.of(self.value(name))

    def children(self, name: str) -> list[Meta]:
        """A list of metadata; null counts as empty."""
        value = self.value(name)
        typ = value.type.under
        if not isinstance(typ, t.Array):
            raise InvalidInput(f"expected an array as {name!r} of metadata of kind {self.kind!r}")
        return [Meta.of(Value(typ.elem, d)) for d in value.data or ()]

    def segment(self, name: str, segments: SegmentReader) -> bytes:
        """The plain bytes of a segment."""
        where = self.child(name)
        sizes = (where.count("Offset", 2**63), where.count("Length"), where.count("MemLength"))
        return segments.read(*sizes, where.count("CompressionFormat"))
