"""Data objects: sorted, cut, sought, checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.errors import CorruptData
from shoal.ids import new
from shoal.lake.keys import Bound, KeyRange, parse_sort_key
from shoal.lake.lake import Lake
from shoal.lake.objects import Form, key_of
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool
from shoal.lake.row_form import segments
from shoal.lake.scans import object_shapes, read_object
from shoal.model import types as t
from shoal.model.text import format_value
from shoal.model.values import Value, int64
from shoal.storage.faults import FaultyStore
from shoal.testing.queries import parse_values


@pytest.fixture
def in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is in row form."""
    monkeypatch.setattr("shoal.lake.object_writer.MOST_SHAPES", 0)


@pytest.fixture(params=list(Form))
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Form:
    """What is written is in this form."""
    if request.param is Form.ROWS:
        monkeypatch.setattr("shoal.lake.object_writer.MOST_SHAPES", 0)
    found: Form = request.param
    return found


def make(lake: Lake, key: str = "k", size: int = 10**6, stride: int = 10**5) -> Pool:
    return lake.create_pool(PoolConfig(new(), f"p{new().hex()}", parse_sort_key(key), size, stride))


def write(pool: Pool, text: str):  # type: ignore[no-untyped-def]
    writer = pool.writer()
    for value in parse_values(text):
        writer.write(value)
    return writer.close()


def read(pool: Pool, o, wanted: KeyRange = KeyRange()) -> list[str]:  # type: ignore[no-untyped-def]
    return [format_value(v) for v in read_object(pool.store, pool.prefix, pool.config.key, o, wanted)]


@pytest.mark.parametrize(("key", "expected"), [("k", [1, 2, 3, None]), ("k:desc", [None, 3, 2, 1])])
def test_values_are_sorted_by_the_key_with_nulls_greatest(
    made: Lake, key: str, expected: list[int | None], form: Form
) -> None:
    pool = make(made, key)
    (o,) = write(pool, "{k:2} {k:null(int64)} {k:3} {k:1}")
    assert read(pool, o) == [f"{{k:{n}}}" if n else "{k:null(int64)}" for n in expected]
    assert (o.min.data, o.max.data, o.count) == (1, None, 4)


def test_several_keys_sort_one_after_the_other(made: Lake, form: Form) -> None:
    pool = make(made, "a,b")
    (o,) = write(pool, "{a:2,b:1} {a:1,b:2} {a:1} {a:1,b:1}")
    assert read(pool, o) == ["{a:1,b:1}", "{a:1,b:2}", "{a:1}", "{a:2,b:1}"]


def test_values_without_the_key_have_objects_of_their_own(made: Lake, form: Form) -> None:
    pool = make(made)
    keyed, keyless = write(pool, '{k:1} {x:1} "text" {k:null} 7')
    assert (keyed.has_key, keyed.count) == (True, 2)
    assert (keyless.has_key, keyless.count, keyless.min.data, keyless.max.data) == (False, 3, None, None)
    assert read(pool, keyless) == ["{x:1}", '"text"', "7"]


def test_a_full_object_is_followed_by_another(made: Lake, form: Form) -> None:
    pool = make(made, size=20)
    objects = write(pool, " ".join(f"{{k:{i}}}" for i in range(20)))
    assert len(objects) > 3
    assert sum(o.count for o in objects) == 20


def test_a_seek_reads_the_segments_it_needs_and_no_more(made: Lake, in_rows: None) -> None:
    pool = make(made, stride=1)
    (o,) = write(pool, " ".join(f"{{k:{i}}}" for i in range(1, 21)))
    assert len(segments(pool.store, key_of(pool.prefix, o), pool.config.key, o)) == 20
    store = FaultyStore(pool.store, lambda number, name, key: None)
    wanted = KeyRange(Bound(int64(5)), Bound(int64(7), inclusive=False))
    assert read(replace(pool, store=store), o, wanted) == ["{k:5}", "{k:6}"]
    assert [name for name, _ in store.calls] == ["get_range"] * 3  # the seek index and two segments


def test_an_object_of_one_segment_has_no_index(made: Lake, in_rows: None) -> None:
    pool = make(made)
    (o,) = write(pool, "{k:1} {k:2}")
    assert o.index_size == 0
    assert pool.store.size(key_of(pool.prefix, o)) == o.size


@pytest.mark.parametrize("stride", [32, 10**5])
def test_a_flipped_bit_anywhere_is_noticed_and_named(made: Lake, stride: int, form: Form) -> None:
    pool = make(made, stride=stride)
    (o,) = write(pool, '{k:1,s:"one"} {k:2,s:"two"} {k:3,s:"three"}')
    name = key_of(pool.prefix, o)
    good, whole, harmless = pool.store.get(name), read(pool, o), []
    for i in range(len(good)):
        pool.store.put(name, good[:i] + bytes([good[i] ^ 0x10]) + good[i + 1 :])
        try:
            assert read(pool, o) == whole
            harmless.append(i)
        except CorruptData as e:
            assert name in str(e)
    # The frame around the seek index has a few bytes that carry nothing; the values have none.
    assert len(harmless) <= (2 if form is Form.ROWS else 0)
    assert all(i >= o.size for i in harmless)


def test_shapes_are_counted_in_the_metadata_or_by_reading(made: Lake, in_rows: None) -> None:
    pool = make(made)
    (o,) = write(pool, '{k:1} {k:2} {k:"a"}')
    found = {str(typ.fields[0].type.name): n for typ, n in object_shapes(pool.store, pool.prefix, pool.config.key, o)}  # type: ignore[attr-defined]
    assert found == {"int64": 2, "string": 1}
    (many,) = write(pool, " ".join(f"{{k:1,f{i}:1}}" for i in range(100)))
    assert many.shapes is None
    assert len(list(object_shapes(pool.store, pool.prefix, pool.config.key, many))) == 100


def test_row_groups_with_large_unsigned_keys_are_found_by_their_statistics(made: Lake) -> None:
    pool = make(made)
    (o,) = write(pool, "{k:1(uint64)} {k:18446744073709551615(uint64)}")
    assert o.form is Form.COLUMNS
    wanted = KeyRange(Bound(Value(t.UINT64, 1 << 63)))
    assert "{k:18446744073709551615(uint64)}" in read(pool, o, wanted)
