"""A compaction in shares: whatever the keys are, no value is lost or doubled, and nothing overlaps any more."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.api.local import LocalLake
from shoal.api.local_pool import LocalPool
from shoal.ids import to_text
from shoal.lake import shares
from shoal.lake.keys import compare_in
from shoal.lake.objects import DataObject
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value

KEYS = st.sampled_from((
    "1", "2", "3", "7", "-4", "9223372036854775807", "null(int64)", "null", "2.5", "NaN", "-0.", "0.", '"a"', '"b"',
    '""', "3(uint8)", "18446744073709551615(uint64)", "2020-01-01T00:00:00Z", "1s", "10.0.0.1", "::1", "0x0aff", "true",
    "80(port=uint16)", "5((int64,string))", '"z"((int64,string))', "[1]", "{x:1}", 'error("no")', "<int64>",
))  # fmt: skip


def value(key: str | None, number: int) -> Value:
    return parse_value(f"{{n:{number}}}" if key is None else f"{{k:{key},n:{number}}}")


def made_pool(lake: LocalLake, order: str, loads: list[list[str | None]]) -> LocalPool:
    pool = lake.create("p", key=f"k:{order}")
    for number, keys in enumerate(loads):
        pool.load([value(key, 100 * number + i) for i, key in enumerate(keys)])
    return pool


def objects(pool: LocalPool) -> list[DataObject]:
    return list(pool.inner.snapshot(pool.inner.resolve()).objects())


@settings(max_examples=60)
@given(
    st.sampled_from(("asc", "desc")),
    st.lists(st.lists(st.one_of(KEYS, st.none()), min_size=1, max_size=12), min_size=2, max_size=5),
    st.sampled_from((1, 40, 200)),
)
def test_shares_hold_every_value_once(order: str, loads: list[list[str | None]], size: int) -> None:
    lake = shoal.create("memory://")
    assert isinstance(lake, LocalLake)
    pool = made_pool(lake, order, loads)
    before = Counter(map(format_value, lake.query(f"from '{pool.name}'")))
    if len(objects(pool)) < 2:
        return
    cut = shares.cut
    with patch.object(shares, "cut", lambda pool, held: cut(pool, held, size)):
        pool.compact([to_text(o.id) for o in objects(pool)])
    assert Counter(map(format_value, lake.query(f"from '{pool.name}'"))) == before
    keyed = [o for o in objects(pool) if o.has_key]
    key = pool.inner.config.key
    for one, other in pairwise(keyed):
        assert compare_in(key.order, one.last(key), other.first(key)) <= 0


def test_large_runs_are_cut_by_the_keys_of_row_groups() -> None:
    lake = shoal.create("memory://")
    pool = lake.create("p", key="ts", seek_stride=64)
    for part in range(4):
        pool.load([{"ts": (i * 7919 + part) % 10_000, "s": f"text {i}"} for i in range(4000)])
    assert isinstance(pool, LocalPool)
    held = objects(pool)
    made = shares.cut(pool.inner, held, sum(o.value_size for o in held) // 6)
    assert len(made) >= 5
    counts = [sum(batch.length for batch in shares.read_share(share)) for share in made]
    assert sum(counts) == 16_000
    assert max(counts) < 2 * 16_000 / len(made)
