"""The column registry: the name and the field id of a path and type are the same in all objects of a pool."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import CorruptData, StorageFailure
from shoal.formats.columns.layouts import Layout, Leaf, layout_of, node_count
from shoal.formats.columns.physical import arrow_type
from shoal.ids import new
from shoal.lake import changes, column_form, lake, rewriting, vacuum
from shoal.lake.claims import Patience
from shoal.lake.column_registry import Column, ColumnRegistry, pairs_of
from shoal.lake.commits import Note
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import Lake
from shoal.lake.objects import DataObject, Form, format_object, key_of, parse_object
from shoal.lake.pool_config import PoolConfig
from shoal.lake.pools import Pool, open_pool
from shoal.model import types as t
from shoal.model.values import Value
from shoal.model.zcode import Data
from shoal.storage.faults import Fault, FaultyStore
from shoal.storage.memory import MemoryStore
from shoal.storage.store import ObjectStore
from shoal.testing.lake_checks import check_columns, show, values_at
from shoal.testing.queries import parse_values

Read = Callable[..., list[str]]
ID = b"PARQUET:field_id"
Columns = dict[tuple[str, str], tuple[tuple[str, ...], int, pa.DataType]]


def live(pool: Pool) -> list[DataObject]:
    return list(pool.snapshot(pool.resolve()).objects())


def file_schema(pool: Pool, o: DataObject) -> pa.Schema:
    schema: pa.Schema = pq.read_schema(io.BytesIO(pool.store.get(key_of(pool.prefix, o))))
    return schema


def columns_of(pool: Pool, o: DataObject) -> Columns:
    """Where the file of an object has each path and type, under which field id, and as which physical type."""
    schema, layout = file_schema(pool, o), column_form.object_layout(o)
    assert schema.field("$shape").metadata[ID] == b"2147483447"
    found: Columns = {}
    for column, pair in zip(layout.columns, pairs_of(layout), strict=True):
        field = schema.field(column.column[0])
        for name in column.column[1:]:
            field = field.type.field(name)
        struct = pa.types.is_struct(field.type) and not isinstance(column, Leaf)
        found[json.dumps(column.path), pair.key] = (
            column.column, int(field.metadata[ID]), pa.struct([]) if struct else field.type,
        )  # fmt: skip
    return found


def check_stable(pool: Pool, objects: Sequence[DataObject]) -> Columns:
    """All columns of some objects; AssertionError if two objects do not agree on one."""
    known: Columns = {}
    by_id: dict[int, str] = {}
    for o in objects:
        if o.form is Form.ROWS:
            continue
        for pair, column in columns_of(pool, o).items():
            assert known.setdefault(pair, column) == column
            assert by_id.setdefault(column[1], pair[1]) == pair[1]
    return known


def write(pool: Pool, text: str) -> None:
    writer = pool.writer()
    for value in parse_values(text):
        writer.write(value)
    pool.committer.commit(changes.load("main", writer.close(), Note("tester")))


def names(pool: Pool, o: DataObject) -> list[str]:
    return list(file_schema(pool, o).names[1:])


# ---- stable names and ids


def test_a_type_has_the_same_name_and_id_in_every_object(pool: Pool) -> None:
    write(pool, '{k:1,level:3}{k:2,level:"high"}')
    write(pool, '{k:3,level:"low"}')
    write(pool, "{k:4,level:4}")
    first, second, third = live(pool)
    assert names(pool, first) == ["k", "level", "level$string"]
    assert names(pool, second) == ["k", "level$string"]
    assert names(pool, third) == ["k", "level"]
    ids = [int(file_schema(pool, o).field(name).metadata[ID]) for o in (first, second) for name in names(pool, o)]
    assert ids == [1, 2, 3, 1, 3]
    check_stable(pool, live(pool))


def test_the_second_type_at_a_path_gets_the_longer_name_forever(pool: Pool) -> None:
    write(pool, '{k:1,level:"low"}')
    write(pool, "{k:2,level:1}")
    write(pool, '{k:3,level:2}{k:4,level:"high"}')
    assert [names(pool, o) for o in live(pool)] == [["k", "level"], ["k", "level$int64"], ["k", "level$int64", "level"]]
    check_stable(pool, live(pool))


def test_columns_inside_of_records_and_lists_are_stable(pool: Pool) -> None:
    write(pool, '{k:1,r:{a:1,list:[{x:1,y:["s"]}],m:|{"a":{b:1}}|,u:[1,"a"]}}')
    write(pool, '{k:2,r:{a:"s",list:[{x:1,y:["s"]}],m:|{"a":{b:1}}|,u:[2,"b"]}}')
    write(pool, '{k:3,r:{a:"s",list:[{x:1}]}}')
    write(pool, "{k:4,r:[1]}")
    columns = check_stable(pool, live(pool))
    assert {".".join(name) for name, _, _ in columns.values()} == {
        "k", "r", "r.a", "r.list", "r.m", "r.u", "r.a$string", "r.list$array", "r$array",
    }  # fmt: skip
    inner = [int(f.metadata[ID]) for o in live(pool)[:1] for f in _all_fields(file_schema(pool, o))]
    assert sorted(inner)[:-1] == list(range(1, len(inner)))


def _all_fields(fields: object) -> Iterator[pa.Field]:
    for field in fields:  # type: ignore[attr-defined]
        yield field
        if pa.types.is_struct(field.type):
            yield from _all_fields(field.type)
        elif pa.types.is_list(field.type):
            yield from _all_fields([field.type.value_field])


def test_names_that_differ_in_case_only_keep_their_suffix(pool: Pool) -> None:
    write(pool, "{k:1,Level:1}")
    write(pool, "{k:2,level:1,LEVEL:2}")
    write(pool, "{k:3,level:1}")
    assert [names(pool, o) for o in live(pool)] == [["k", "Level"], ["k", "level$2", "LEVEL$3"], ["k", "level$2"]]


def test_a_record_without_columns_does_not_take_the_name_of_a_struct(pool: Pool, read: Read) -> None:
    for text in ("{k:1,r:{}}", "{k:2,r:{a:1}}", "{k:3,r:{}}", "{k:4,r:{}}{k:5,r:{a:2}}", "{k:6,r:null({})}"):
        write(pool, text)
    assert [names(pool, o) for o in live(pool)[:3]] == [["k", "r"], ["k", "r$record"], ["k", "r"]]
    check_stable(pool, live(pool))
    assert read() == ["{k:1,r:{}}", "{k:2,r:{a:1}}", "{k:3,r:{}}", "{k:4,r:{}}", "{k:5,r:{a:2}}", "{k:6,r:null({})}"]


def test_odd_names_and_values_that_are_no_records(pool: Pool, read: Read) -> None:
    rows = ['{k:1,"":1,$shape:2,"a b":3}', '"text"', "1", '{k:2,"":"s",a$int64:1,"a b":"s"}', "{k:3,$value:1}"]
    for row in rows:
        write(pool, row)
    check_stable(pool, live(pool))
    assert sorted(read()) == sorted(rows)


def test_compaction_keeps_the_columns(pool: Pool, read: Read) -> None:
    texts = ('{k:1,a:"s"}', "{k:2,a:1}", "{k:3,a:2}", '{k:4,a:"t",b:{c:1}}', "{k:5,b:2.}")
    for text in texts:
        write(pool, text)
    before = check_stable(pool, live(pool))
    rewriting.compact(pool, "main", [o.id for o in live(pool)], Note("tester"))
    (o,) = live(pool)
    assert check_stable(pool, [o]) == before
    assert read() == list(texts)


# ---- descriptions


def test_plain_objects_are_described_as_before(pool: Pool) -> None:
    write(pool, '{k:1,a:{b:1}}{k:2,a:"s"}')
    (o,) = live(pool)
    value = format_object(o)
    assert o.names == ()
    assert isinstance(value.type, t.Record)
    assert "names" not in value.type.index
    assert value.data[value.type.index["form"]] == "parquet"


def test_an_object_with_other_names_has_another_form(pool: Pool) -> None:
    write(pool, '{k:1,a:{b:1}}{k:2,a:"s"}')
    write(pool, '{k:3,a:"s"}')
    o = live(pool)[1]
    value = format_object(o)
    assert isinstance(value.type, t.Record)
    assert value.data[value.type.index["form"]] == "named columns"
    assert o.names == ("k", "a$string")
    assert parse_object(value, "x") == o
    assert key_of(pool.prefix, o).endswith(".parquet")


def test_names_and_form_have_to_agree(pool: Pool) -> None:
    write(pool, "{k:1,a:1}")
    write(pool, '{k:3,a:"s"}')
    value = format_object(live(pool)[1])
    assert isinstance(value.type, t.Record)
    place = value.type.index["form"]
    with pytest.raises(CorruptData, match="names of columns do not go with form 'parquet'"):
        parse_object(Value(value.type, (*value.data[:place], "parquet", *value.data[place + 1 :])), "x")
    with pytest.raises(CorruptData, match="fewer names than columns"):
        Layout((t.record([("a", t.INT64), ("b", t.INT64)]),), ["a"])
    with pytest.raises(CorruptData, match="more names than columns"):
        Layout((t.record([("a", t.INT64)]),), ["a", "b"])


def test_a_new_lake_says_that_its_columns_are_stable(made: Lake) -> None:
    assert made.info.features == {"lineage", "pool-settings", "stable-columns", "transactions"}


# ---- requests, failures and damage


def test_columns_that_are_registered_cost_no_request(store: MemoryStore, pool: Pool) -> None:
    counting = FaultyStore(store, lambda number, name, key: None)
    handle = open_pool(counting, pool.config)
    write(handle, '{k:1,a:1}{k:2,a:"s"}')
    assert [name for name, key in counting.calls if "/columns/" in key and name == "create"] == ["create"]
    counting.calls.clear()
    write(handle, '{k:3,a:"s"}')
    write(handle, "{k:4,a:1}")
    assert [key for _, key in counting.calls if "/columns/" in key] == []


def test_reading_does_not_need_the_registry(store: MemoryStore, pool: Pool, read: Read) -> None:
    write(pool, '{k:1,a:1}{k:2,a:"s"}')
    write(pool, '{k:3,a:"t"}')
    for listed in list(store.list(f"{pool.prefix}/columns/")):
        store.delete(listed.key)
    fresh = lake.open_lake(store).pool("logs")
    assert read(of=fresh) == ["{k:1,a:1}", '{k:2,a:"s"}', '{k:3,a:"t"}']


def test_a_damaged_entry_is_named(store: MemoryStore, pool: Pool, read: Read) -> None:
    write(pool, "{k:1,a:1}")
    key = f"{pool.prefix}/columns/{1:020d}.zng"
    data = bytearray(store.get(key))
    data[len(data) // 2] ^= 1
    store.put(key, bytes(data))
    fresh = lake.open_lake(store).pool("logs")
    with pytest.raises(CorruptData, match=key):
        write(fresh, "{k:2,a:1}")
    assert read(of=fresh) == ["{k:1,a:1}"]


def test_an_unknown_outcome_of_the_registry_is_not_one_of_the_load(store: MemoryStore, pool: Pool) -> None:
    def lose(number: int, name: str, key: str) -> Fault | None:
        return Fault.LATE if name == "create" and "/columns/" in key else None

    faulty = FaultyStore(store, lose)
    registry = ColumnRegistry(faulty, pool.prefix, Patience(0.0, 0))
    layout = layout_of((t.record([("k", t.INT64)]),))
    with pytest.raises(StorageFailure, match="does not say whether new columns were registered"):
        registry.register(layout)
    faulty.land_late()
    again = ColumnRegistry(store, pool.prefix)
    assert again.register(layout) == ((("k", 1)),)
    check_columns(store, pool)


def test_an_entry_of_a_writer_that_died_is_confirmed(store: MemoryStore, pool: Pool) -> None:
    write(pool, "{k:1}")
    counting = FaultyStore(store, lambda number, name, key: None)
    write(open_pool(counting, pool.config), "{k:2}")
    assert ("create", f"{pool.prefix}/columns/{1:020d}.zng") in counting.calls


def test_vacuum_leaves_the_registry_and_drop_takes_it(store: MemoryStore, made: Lake, pool: Pool) -> None:
    write(pool, "{k:1}")
    before = [listed.key for listed in store.list(f"{pool.prefix}/columns/")]
    assert len(before) == 1
    vacuum.collect(pool, 0.0)
    assert [listed.key for listed in store.list(f"{pool.prefix}/columns/")] == before
    assert made.leftovers(0) == []
    made.drop_pool("logs")
    assert not list(store.list(f"{pool.prefix}/columns/"))


# ---- several writers


class _Rivals:
    """Lets a rival go first, each time a writer is about to claim a slot of the registry."""

    def __init__(self, store: ObjectStore, config: PoolConfig, texts: list[str]) -> None:
        self._store, self._config, self._texts = store, config, texts

    def __call__(self, number: int, name: str, key: str) -> Fault | None:
        if name == "create" and "/columns/" in key and self._texts:
            write(open_pool(self._store, self._config), self._texts.pop())
        return None


@pytest.mark.parametrize(
    "rivals",
    [["{k:9,a:1,b:1}"], ["{k:9,a:1}", "{k:8,A:1}"], ['{k:9,a:"s",b:"s"}', '{k:8,b:1,c:"s"}', "{k:7,a:[1]}"]],
)
def test_a_writer_that_was_second_uses_what_the_first_registered(
    store: MemoryStore, pool: Pool, rivals: list[str]
) -> None:
    faulty = FaultyStore(store, _Rivals(store, pool.config, list(rivals)))
    write(open_pool(faulty, pool.config), "{k:1,a:1,b:1}")
    assert len(live(pool)) == len(rivals) + 1
    check_stable(pool, live(pool))
    check_columns(store, pool)


def test_threads_that_bring_the_same_and_other_columns_agree(store: MemoryStore, pool: Pool) -> None:
    barrier = Barrier(6)

    def run(i: int) -> None:
        handle = open_pool(store, pool.config) if i % 2 else pool
        barrier.wait()
        for j in range(4):
            write(handle, f"{{k:{i * 10 + j},same{j}:{i if i % 3 else chr(34) + 's' + chr(34)},own{i}:{{x{j}:1}}}}")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(run, range(6)))
    assert len(values_at(pool, pool.resolve())) == 24
    check_stable(pool, live(pool))
    check_columns(store, pool)


# ---- any shapes

FIELDS = st.sampled_from(["a", "A", "b", "a$string", "", "$value"])
LEAVES = st.sampled_from([t.INT64, t.STRING, t.NULL, t.FLOAT64, t.array(t.INT64), t.array(t.record([("x", t.INT64)]))])


def _records(inner: st.SearchStrategy[t.Type]) -> st.SearchStrategy[t.Type]:
    return st.dictionaries(FIELDS, inner, max_size=3).map(lambda fields: t.record(fields.items()))


TYPES = st.recursive(LEAVES, lambda inner: _records(inner) | inner.map(t.array), max_leaves=5)
SHAPES = st.lists(TYPES | _records(TYPES), min_size=1, max_size=4, unique=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), SHAPES, st.none() | SHAPES), min_size=1, max_size=6))
def test_writers_in_any_order_agree_on_every_column(
    batches: list[tuple[int, list[t.Type], list[t.Type] | None]],
) -> None:
    """Three writers take turns, and in some of them another one is faster."""
    store = MemoryStore()
    pool = lake.create(store).create_pool(PoolConfig(new(), "logs", parse_sort_key("k")))
    rivals: list[list[t.Type]] = []
    known: dict[str, Column] = {}

    def register(registry: ColumnRegistry, shapes: list[t.Type]) -> None:
        layout = layout_of(tuple(shapes))
        columns = registry.register(layout)
        for pair, column in zip(pairs_of(layout), columns, strict=True):
            assert known.setdefault(pair.key, column) == column

    def overtake(number: int, name: str, key: str) -> None:
        if name == "create" and rivals:
            register(ColumnRegistry(store, pool.prefix), rivals.pop())

    writers = [ColumnRegistry(FaultyStore(store, overtake), pool.prefix) for _ in range(3)]
    for number, shapes, rival in batches:
        rivals[:] = [] if rival is None else [rival]
        register(writers[number], shapes)
    check_columns(store, pool)


@settings(max_examples=40, deadline=None)
@given(st.lists(SHAPES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_values_of_any_shapes_read_back_exactly_from_stable_columns(
    batches: list[list[t.Type]], random: Random
) -> None:
    pool = lake.create(MemoryStore()).create_pool(PoolConfig(new(), "logs", parse_sort_key("k")))
    rows: list[Value] = []
    for shapes in batches:
        values = [Value(shape, some_data(shape, random)) for shape in shapes]
        writer = pool.writer()
        pool.committer.commit(changes.load("main", writer.write_all(values), Note("tester")))
        rows += values
    check_stable(pool, live(pool))
    expected = sorted(show(value) for value in rows)
    assert sorted(values_at(pool, pool.resolve())) == expected


def some_data(typ: t.Type, random: Random) -> Data:
    """A value of a type; now and then null."""
    if typ is t.NULL or random.random() < 0.15:
        return None
    match typ:
        case t.Record(fields=fields):
            return tuple(some_data(f.type, random) for f in fields)
        case t.Array(elem=elem):
            return tuple(some_data(elem, random) for _ in range(random.randrange(3)))
    if typ is t.STRING:
        return random.choice("xyz")
    return random.randrange(9) if typ is t.INT64 else random.random()


@settings(max_examples=100, deadline=None)
@given(TYPES)
def test_a_column_takes_as_many_ids_as_parquet_has_nodes(typ: t.Type) -> None:
    assert node_count(typ) == len(list(_all_fields([pa.field("x", arrow_type(typ))])))


def test_maps_unions_and_errors_take_an_id_for_each_node() -> None:
    for text in ("|{1:{a:1,b:[1]}}|", '[1,"a",[1]]', "error({a:1})", "|[1]|", "[{}]", "null", "1.2.3.4"):
        (value,) = parse_values(text)
        assert node_count(value.type) == len(list(_all_fields([pa.field("x", arrow_type(value.type))])))
