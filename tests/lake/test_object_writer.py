"""The writer of data objects: what it returns is in the store, sorted; what fails or is discarded leaves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.pool_settings import PoolSettings
from shoal.errors import StorageFailure
from shoal.formats.columns import kernels
from shoal.formats.columns.batches import batch_of
from shoal.ids import new
from shoal.lake.column_registry import ColumnRegistry
from shoal.lake.keys import comparer, parse_sort_key
from shoal.lake.object_writer import ObjectWriter
from shoal.lake.objects import DataObject, Form, key_of
from shoal.lake.pool_config import PoolConfig
from shoal.lake.scans import read_object
from shoal.model import types as t
from shoal.model.fields import NO_ID
from shoal.model.text import format_value
from shoal.model.values import NULL, Value, record
from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore
from shoal.testing import strategies
from shoal.testing.queries import parse_values

POOL = "p"


def config(key: str = "k", object_size: int = 1 << 20) -> PoolConfig:
    return PoolConfig(new(), "logs", parse_sort_key(key), object_size)


def numbers(count: int) -> list[Value]:
    return parse_values(" ".join(f'{{k:{i * 7919 % count},s:"text {i}"}}' for i in range(count)))


def inline(most: int, key: str = "k") -> PoolConfig:
    return replace(config(key), settings=PoolSettings(inline=most))


def texts(store: MemoryStore, pool: PoolConfig, o: DataObject) -> list[str]:
    return [format_value(value) for value in read_object(store, POOL, pool.key, o)]


def keys(store: MemoryStore) -> set[str]:
    return {listed.key for listed in store.list(f"{POOL}/data/")}


def object_writer(store: ObjectStore, pool: PoolConfig, as_one_run: bool = False) -> ObjectWriter:
    return ObjectWriter(store, POOL, pool, ColumnRegistry(store, POOL), as_one_run)


def test_a_writer_without_values_writes_no_object(store: MemoryStore) -> None:
    assert object_writer(store, config()).write_all([]) == []
    assert keys(store) == set()


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_values_and_batches_end_up_sorted_in_one_object(store: MemoryStore, order: str) -> None:
    pool = config(f"k:{order}")
    values = numbers(30)
    (o,) = object_writer(store, pool).write_all([*values[:10], batch_of(values[10:25]), *values[25:]])
    expected = sorted(values, key=lambda value: value.data[0], reverse=order == "desc")
    assert texts(store, pool, o) == [format_value(value) for value in expected]
    assert (o.count, o.min.data, o.max.data) == (30, 0, 29)
    assert keys(store) == {key_of(POOL, o)}
    assert 0 < o.size < store.size(key_of(POOL, o))  # the footer does not count


@given(st.lists(strategies.records() | strategies.values(), min_size=1, max_size=8), st.sampled_from(["asc", "desc"]))
def test_objects_are_the_same_without_pyarrow_compute(values: list[Value], order: str) -> None:
    ends = [record([("k", Value(t.INT64, number))]) for number in (5, 3, 4)]
    written: list[tuple[list[DataObject], list[bytes]]] = []
    pool, tops = config(f"k:{order}"), [*values, *ends]
    for goes_without in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "goes_without", lambda rows, answer=goes_without: answer)
            store = MemoryStore()
            objects = object_writer(store, pool).write_all(tops)
            assert sorted(text for o in objects for text in texts(store, pool, o)) == sorted(map(format_value, tops))
            data = [store.get(key_of(POOL, o)) for o in objects]
            written.append(([replace(o, id=NO_ID) for o in objects], data))
    assert written[0] == written[1]


def test_objects_of_a_small_size_hold_every_value_once(store: MemoryStore) -> None:
    pool = config(object_size=200)
    values = numbers(100)
    written = object_writer(store, pool).write_all(values)
    assert len(written) > 5
    assert keys(store) == {key_of(POOL, o) for o in written}
    assert Counter(text for o in written for text in texts(store, pool, o)) == Counter(map(format_value, values))


def test_one_run_is_sorted_across_its_objects(store: MemoryStore) -> None:
    pool = config(object_size=200)
    written = object_writer(store, pool, as_one_run=True).write_all(numbers(100))
    bounds = [bound.data for o in written for bound in (o.min, o.max)]
    assert len(written) > 1
    assert bounds == sorted(bounds)


def test_values_without_the_key_have_their_own_object(store: MemoryStore) -> None:
    pool = config()
    values = parse_values('{k:1} {x:2} 3 {k:null(int64)} "a" {u:4((int64,{k:int64}))}')
    written = object_writer(store, pool).write_all(values)
    assert [(o.has_key, o.count) for o in written] == [(True, 2), (False, 4)]
    assert sorted(texts(store, pool, written[1])) == sorted(map(format_value, [values[i] for i in (1, 2, 4, 5)]))


def test_shapes_are_counted(store: MemoryStore) -> None:
    (o,) = object_writer(store, config()).write_all(parse_values('{k:1} {k:2} {k:"a"}'))
    assert o.form is Form.COLUMNS
    assert o.shapes is not None
    assert sorted(count for _, count in o.shapes) == [1, 2]


def test_discarded_objects_are_removed(store: MemoryStore) -> None:
    writer = object_writer(store, config(object_size=200))
    for value in numbers(100):
        writer.write(value)
    writer.discard()
    assert keys(store) == set()


def test_an_input_that_fails_leaves_no_object(store: MemoryStore) -> None:
    def failing() -> Iterator[Value]:
        yield from numbers(100)
        raise ValueError("broken input")

    with pytest.raises(ValueError, match="broken input"):
        object_writer(store, config(object_size=200)).write_all(failing())
    assert keys(store) == set()


def test_a_store_that_fails_leaves_no_object(store: MemoryStore) -> None:
    puts: list[str] = []

    def choose(_: int, call: str, key: str) -> Fault | None:
        puts.extend([key] if call == "put" else [])
        return Fault.ERROR if call == "put" and len(puts) == 3 else None

    with pytest.raises(StorageFailure):
        object_writer(FaultyStore(store, choose), config(object_size=200)).write_all(numbers(100))
    assert len(puts) >= 3
    assert keys(store) == set()


# ---- many shapes, wide shapes


def many_shapes(count: int) -> list[Value]:
    """A frequent shape, and as many others of one value each."""
    text = " ".join(f'{{k:{i * 7919 % count},s:"text"}} {{k:{i * 7919 % count},f{i}:{i}}}' for i in range(count))
    return parse_values(text)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("in_batches", [False, True])
def test_rare_shapes_among_many_are_rows_and_frequent_ones_columns(
    store: MemoryStore, order: str, in_batches: bool
) -> None:
    pool = config(f"k:{order}", object_size=1 << 30)
    values = many_shapes(2000)
    written = object_writer(store, pool).write_all([batch_of(values)] if in_batches else values)
    assert {(o.form, o.count) for o in written} == {(Form.COLUMNS, 2000), (Form.ROWS, 2000)}
    for o in written:
        expected = [v for v in values if (v.type.under is values[0].type) == (o.form is Form.COLUMNS)]
        expected.sort(key=lambda v: v.data[0], reverse=order == "desc")
        assert texts(store, pool, o) == [format_value(value) for value in expected]


def test_rare_shapes_sort_with_keys_of_any_type(store: MemoryStore) -> None:
    kinds = ("{}", '"{}"', "{}.5", "null", "10.0.0.1", "NaN")
    text = " ".join(f"{{k:{kinds[i % 6].format(i)},f{i}:0}} {{k:{kinds[i % 6].format(i)}}}" for i in range(1500))
    values = parse_values(text)
    pool = config(object_size=1 << 30)
    written = object_writer(store, pool).write_all(values)
    assert Counter(text for o in written for text in texts(store, pool, o)) == Counter(map(format_value, values))
    compare = comparer("asc")
    for o in written:
        found = [compare((value.field("k") or NULL,)) for value in read_object(store, POOL, pool.key, o)]
        assert found == sorted(found)


def test_rare_shapes_without_the_key_are_apart(store: MemoryStore) -> None:
    pool = config(object_size=1 << 30)
    values = parse_values(" ".join(f"{{k:{i},f{i}:0}} {{g{i}:0}}" for i in range(1500)))
    written = object_writer(store, pool).write_all(values)
    assert {(o.form, o.has_key, o.count) for o in written} == {(Form.ROWS, True, 1500), (Form.ROWS, False, 1500)}


def test_a_wide_shape_is_rows_and_leaves_others_in_columns(store: MemoryStore) -> None:
    wide = "{k:1," + ",".join(f"f{i}:{i}" for i in range(5000)) + "}"
    pool = config(object_size=1 << 30)
    values = parse_values(f"{{k:0}} {wide} {{k:2}}")
    written = object_writer(store, pool).write_all(values)
    assert {(o.form, o.count) for o in written} == {(Form.COLUMNS, 2), (Form.ROWS, 1)}
    assert {text for o in written for text in texts(store, pool, o)} == set(map(format_value, values))


def test_shapes_count_for_what_they_take_in_memory(store: MemoryStore) -> None:
    """Values of a few bytes each whose types take much more are written before memory is full of types."""
    pool = config(object_size=1 << 30)
    values = parse_values(" ".join(f"{{k:{i},f{i}:0}}" for i in range(40_000)))
    writer = ObjectWriter(store, POOL, pool, ColumnRegistry(store, POOL), memory=100 << 20)
    assert [o.count for o in writer.write_all(values)] == [20_000, 20_000]


# ---- data that is part of the description


def test_up_to_a_limit_all_bytes_are_part_of_the_description(store: MemoryStore) -> None:
    (large,) = object_writer(store, inline(4096)).write_all(numbers(50))
    assert large.inline is not None
    assert len(large.inline) == large.size
    for most, is_inline in ((large.size, True), (large.size - 1, False)):
        pool = inline(most)
        (o,) = object_writer(store, pool).write_all(numbers(50))
        assert (o.inline is not None) is is_inline
        assert texts(store, pool, o) == [f'{{k:{k},s:"text {k * next_of(50) % 50}"}}' for k in range(50)]
        assert (o.count, o.shapes and o.shapes[0][1]) == (50, 50)
    assert keys(store) == {key_of(POOL, o)}


def next_of(count: int) -> int:
    """What leads from a key back to its number."""
    return pow(7919, -1, count)


def test_values_with_and_without_the_key_share_the_limit(store: MemoryStore) -> None:
    pool = inline(400)
    both = [*parse_values("{k:2} {k:1}"), *parse_values("{x:1} {x:2}")]
    objects = object_writer(store, pool).write_all(both)
    assert [(o.has_key, o.inline is not None) for o in objects] == [(True, True), (False, True)]
    assert [texts(store, pool, o) for o in objects] == [["{k:1}", "{k:2}"], ["{x:1}", "{x:2}"]]
    many = object_writer(store, pool).write_all([*numbers(500), *parse_values("{x:1}")])
    assert sum(o.size for o in many if o.inline is not None) <= 400
    assert sorted(text for o in many for text in texts(store, pool, o)) == sorted(
        [*map(format_value, numbers(500)), "{x:1}"]
    )


def test_inline_data_may_have_many_shapes(store: MemoryStore) -> None:
    pool = inline(1 << 16)
    values = many_shapes(100)
    objects = object_writer(store, pool).write_all(values)
    assert all(o.inline is not None and o.shapes is None for o in objects if o.count > 64)
    assert Counter(text for o in objects for text in texts(store, pool, o)) == Counter(map(format_value, values))
    assert len(keys(store)) == sum(o.inline is None for o in objects)


def test_a_discarded_writer_of_inline_data_leaves_nothing(store: MemoryStore) -> None:
    writer = object_writer(store, inline(4096))
    writer.write_all(numbers(5))
    writer.discard()
    assert keys(store) == set()


def test_one_run_is_never_inline(store: MemoryStore) -> None:
    """A compaction writes objects of the store."""
    (o,) = object_writer(store, inline(4096), as_one_run=True).write_all(numbers(5))
    assert o.inline is None
    assert keys(store) == {key_of(POOL, o)}
