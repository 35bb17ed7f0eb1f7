"""Decoders: what is walked part by part for the first values of a type, and compiled after that, gives the same."""

from __future__ import annotations

import gc
from weakref import ref

from hypothesis import given, settings

from shoal.errors import InvalidInput
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import decode, decoder, encode
from shoal.testing.samples import damaged
from shoal.testing.strategies import values
from shoal.testing.tiers import examples

USES = 40


@settings(max_examples=examples(200))
@given(values())
def test_a_value_decodes_the_same_at_every_use(value: Value) -> None:
    body = encode(value.type, value.data)
    assert all(Value(value.type, decode(value.type, body)) == value for _ in range(USES))


def outcome(typ: t.Type, body: bytes) -> str:
    try:
        return repr(decode(typ, body))
    except InvalidInput:
        return "refused"


NESTED = t.record((
    ("a", t.array(t.union((t.INT64, t.STRING, t.NULL)))), ("m", t.map_of(t.STRING, t.set_of(t.IP))),
    ("e", t.error(t.record((("x", t.enum(("u", "v"))),)))), ("n", t.named("port", t.UINT16)),
))  # fmt: skip


def test_damaged_bodies_decode_the_same_at_every_use() -> None:
    data = (((0, 1), (1, "x"), None), (("k", (b"\1\2\3\4",)),), (1,), 80)
    body = encode(NESTED, data)
    assert body is not None
    for bad in damaged(body, 300, 1):
        assert len({outcome(NESTED, bad) for _ in range(USES)}) == 1


def test_a_decoder_does_not_keep_its_type_alive() -> None:
    typ = t.record((("only here", t.INT64),))
    alive = ref(typ)
    decoder(typ)(b"\2\2", 0, 2)
    del typ
    gc.collect()
    assert alive() is None
