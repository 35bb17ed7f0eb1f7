"""The parts of a value, for whatever looks everywhere in it."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.model import types as t
from shoal.model.zcode import Data


def parts(typ: t.Type, data: Data) -> Iterator[tuple[t.Type, Data]]:
    """The value, then all that it is made of, depth first; types come without names. A null has no parts."""
    typ = typ.under
    yield typ, data
    if isinstance(typ, t.Error):
        yield from parts(typ.inner, data)
    if data is None:
        return
    match typ:
        case t.Record():
            for field, item in zip(typ.fields, data, strict=True):
                yield from parts(field.type, item)
        case t.Array() | t.Set():
            for item in data:
                yield from parts(typ.elem, item)
        case t.Map():
            for key, item in data:
                yield from parts(typ.key, key)
                yield from parts(typ.value, item)
        case t.Union():
            yield from parts(typ.types[data[0]], data[1])
