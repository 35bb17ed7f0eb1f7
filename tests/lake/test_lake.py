"""Lakes and their pools."""

from __future__ import annotations

import pytest

from shoal.errors import AlreadyExists, CorruptData, InvalidInput, NotFound, ReadOnly, Unsupported
from shoal.ids import new, to_text
from shoal.lake import lake
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import Lake
from shoal.lake.pool_config import PoolConfig
from shoal.lake.sealed import seal, unseal
from shoal.model import types as t
from shoal.model.values import Value, record
from shoal.storage.memory import MemoryStore
from shoal.storage.store import Created
from shoal.testing.clocks import DAY, Machine, cloud


def config(name: str, key: str = "ts") -> PoolConfig:
    return PoolConfig(new(), name, parse_sort_key(key))


def test_a_lake_is_made_once(store: MemoryStore, made: Lake) -> None:
    assert lake.open_lake(store).info == made.info
    with pytest.raises(AlreadyExists, match="lake already exists"):
        lake.create(store)
    with pytest.raises(NotFound, match="shoal init"):
        lake.open_lake(MemoryStore())


def test_pools_are_found_by_name_and_by_id(made: Lake) -> None:
    pool = made.create_pool(config("a", "x.y,z:desc"))
    assert made.pool("a").config == made.pool(to_text(pool.config.id)).config == pool.config
    assert [c.name for c in made.configs()] == ["a"]
    with pytest.raises(AlreadyExists, match="a: pool already exists"):
        made.create_pool(config("a"))
    with pytest.raises(NotFound, match="b: pool not found"):
        made.pool("b")


@pytest.mark.parametrize("name", ["", " a", "a@b", "a:b", "HEAD", "a\nb"])
def test_names_that_mean_something_else_are_refused(made: Lake, name: str) -> None:
    with pytest.raises(InvalidInput, match="invalid pool name"):
        made.create_pool(config(name))


def test_rename_and_drop(store: MemoryStore, made: Lake) -> None:
    made.create_pool(config("a"))
    pool = made.create_pool(config("b"))
    made.rename_pool("b", "c")
    with pytest.raises(AlreadyExists):
        made.rename_pool("c", "a")
    with pytest.raises(NotFound):
        made.rename_pool("b", "x")
    made.drop_pool("c")
    assert [c.name for c in lake.open_lake(store).configs()] == ["a"]
    # The journal stays for a while, so that whoever holds on to the pool learns of it.
    assert {listed.key.split("/")[1] for listed in store.list(pool.prefix)} == {"branches"}
    with pytest.raises(NotFound, match="dropped"):
        pool.names.create_branch("x", None)
    assert {listed.key for listed in made.leftovers(0)} == {listed.key for listed in store.list(pool.prefix)}


def test_a_lake_with_unknown_features_is_read_and_not_written(store: MemoryStore, made: Lake) -> None:
    made.create_pool(config("a"))
    _change_root(store, features=Value(t.array(t.STRING), ("shiny",)))
    newer = lake.open_lake(store)
    assert newer.pool("a").refs().branches()
    with pytest.raises(ReadOnly, match="shiny"):
        newer.create_pool(config("b"))


def test_a_lake_of_a_newer_version_is_refused(store: MemoryStore, made: Lake) -> None:
    _change_root(store, version=Value(t.UINT64, 99))
    with pytest.raises(Unsupported, match="99"):
        lake.open_lake(store)


def test_what_is_no_lake_is_refused(store: MemoryStore) -> None:
    store.put("lake.zng", seal([], "lake.zng"))
    with pytest.raises(CorruptData):
        lake.open_lake(store)


def _change_root(store: MemoryStore, **fields: Value) -> None:
    (root,) = unseal(store.get("lake.zng"), "lake.zng")
    assert isinstance(root.type, t.Record)
    names = [f.name for f in root.type.fields]
    store.put("lake.zng", seal([record([(n, fields.get(n) or root.field(n)) for n in names])], "lake.zng"))  # type: ignore[misc]


class Careless(MemoryStore):
    """A store that takes a create for a put."""

    def create(self, key: str, data: bytes) -> Created:
        self.put(key, data)
        return Created.LANDED


def test_a_store_that_ignores_put_if_missing_is_refused() -> None:
    with pytest.raises(Unsupported, match="ignores put-if-missing"):
        lake.create(Careless())


def test_leftovers_are_found_by_age(store: MemoryStore, made: Lake) -> None:
    pool = made.create_pool(config("a"))
    stray = f"{to_text(new())}/data/x.zng"
    store.put(stray, b"x")
    assert [listed.key for listed in made.leftovers(0)] == [stray]
    assert made.leftovers(3600) == []
    assert not any(listed.key.startswith(pool.prefix) for listed in made.leftovers(0))


def test_leftovers_are_aged_by_the_clock_of_the_store(machine: Machine) -> None:
    store = cloud(machine)
    lake.create(store)
    store.put("probe/left", b"x")
    machine.passed += DAY
    machine.ahead = 30 * DAY
    opened = lake.open_lake(store)
    opened.require_writable()
    assert opened.leftovers(7 * 24 * 3600.0) == []
    machine.passed += 7 * DAY
    assert [listed.key for listed in opened.leftovers(7 * 24 * 3600.0)] == ["probe/left"]
