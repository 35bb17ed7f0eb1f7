"""The public names of the package: each is documented, and completion shows them and nothing else."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import shoal
from shoal.errors import NotFound
from shoal.model.values import NULL, Value, error, int64, record, string

HANDLES = (shoal.Lake, shoal.Pool, shoal.Branch, shoal.Transaction, shoal.Results)
MODULES = (shoal, shoal.errors, shoal.ids, shoal.spark)


def public_things() -> Iterator[tuple[str, Any]]:
    """Every public name with what it stands for: of the modules, and of the classes among them."""
    for module in MODULES:
        yield module.__name__, module
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, (str, ModuleType)):
                continue
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                fields = {f.name for f in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
                members = set(dir(thing)) - set(dir(Exception)) if issubclass(thing, Exception) else set(dir(thing))
                for member in sorted(members - fields):
                    if not member.startswith("_"):
                        yield f"{module.__name__}.{name}.{member}", getattr(thing, member)


THINGS = [(name, thing) for name, thing in public_things() if not isinstance(thing, (str, bool))]


@pytest.mark.parametrize("name, thing", THINGS, ids=[name for name, _ in THINGS])
def test_every_public_name_has_a_docstring(name: str, thing: Any) -> None:
    text = thing.__doc__ if inspect.isclass(thing) else inspect.getdoc(thing)
    first = (text or "").strip().partition("\n\n")[0]
    assert first.endswith((".", ":")), name


def test_the_walk_reaches_the_handles() -> None:
    names = {name for name, _ in THINGS}
    assert {"shoal.Pool.load", "shoal.Lake.query", "shoal.Branch.schema", "shoal.Transaction.commit"} <= names
    assert {"shoal.Results.to_pandas", "shoal.Value.type", "shoal.errors.NotFound", "shoal.query"} <= names


@pytest.mark.parametrize("kind", HANDLES, ids=lambda kind: kind.__name__)
def test_parameters_are_explained(kind: type) -> None:
    """The help of a method with many parameters has each of them."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        parameters = [p for p in inspect.signature(method).parameters if p not in ("self", "note")]
        if not name.startswith("_") and len(parameters) > 4:
            text = inspect.getdoc(method) or ""
            is_complete = "The options are those of" in text
            missing = [p for p in parameters if f"`{p}`" not in text and p not in ("name", "program")]
            assert is_complete or missing == [], f"{kind.__name__}.{name}"


def test_modules_complete_to_their_public_names() -> None:
    for module in MODULES:
        assert sorted(dir(module)) == sorted(module.__all__)
    code = "import sys, shoal; print(dir(shoal) == sorted(shoal.__all__), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    is_clean, *loaded = done.stdout.split()
    assert is_clean == "True"
    assert not {"pyarrow", "duckdb", "pyspark", "numpy", "shoal.lake", "shoal.api"} & set(loaded)
    with pytest.raises(AttributeError, match="module 'shoal' has no attribute 'nope'"):
        _ = shoal.nope


def test_handles_complete_to_their_interface() -> None:
    lake = shoal.create("memory://completion")
    pool = lake.create("logs", key="ts")
    pool.load([{"ts": 1}])
    shown = {
        "lake": dir(lake),
        "pool": dir(pool),
        "branch": dir(pool.branch("main")),
        "transaction": dir(pool.begin()),
        "lake transaction": dir(lake.begin(["logs"])),
        "results": dir(pool.query()),
    }
    internals = {"do", "find", "keep", "opened", "root", "writable", "session", "end", "give_up", "through", "on_spark"}
    for handle, names in shown.items():
        assert [name for name in names if name.startswith("_") or name in internals] == [], handle
    assert shown["lake"] == [
        "begin", "create", "drop", "explain", "pool", "pools", "query", "register", "rename", "resume", "sql", "status",
        "transaction", "uri", "vacuum",
    ]  # fmt: skip
    assert {"load", "query", "schema", "log", "branch_name", "lake"} <= set(shown["branch"]) < set(shown["pool"])
    assert shown["transaction"] == [
        "abandon", "base", "commit", "delete", "id", "is_done", "load", "query", "sql", "take_over", "update", "upsert",
    ]  # fmt: skip
    assert shown["lake transaction"] == [
        "abandon", "commit", "delete", "expires", "id", "is_done", "load", "part", "places", "query", "save", "sql",
        "take_over", "update", "upsert",
    ]  # fmt: skip
    assert {"hold", "one", "statistics", "to_arrow", "to_list"} <= set(shown["results"])


def test_values_and_types_print_as_zson() -> None:
    value = record([("ts", int64(1)), ("host", string("a")), ("why", error(string("x"))), ("none", NULL)])
    assert repr(value) == str(value) == '{ts:1,host:"a",why:error("x"),none:null}'
    assert repr([int64(1), string("a")]) == '[1, "a"]'
    assert repr(value.type) == "<{ts:int64,host:string,why:error(string),none:null}>"
    assert repr(int64(1).type) == "<int64>"
    assert repr(Value(value.type, ("no", "record"))).startswith("Value(<{ts:int64,")


def test_handles_print_what_they_are() -> None:
    lake = shoal.create("memory://shown")
    pool = lake.create("logs", key=["host", "ts"])
    commit = pool.load([{"ts": 1}], author="ada", message="by hand\n\nwith more")
    assert repr(lake) == "<lake memory://shown>"
    assert repr(pool) == "<pool logs, sorted by host,ts asc, of memory://shown>"
    assert repr(pool.branch("dev")) == "<branch logs@dev>"
    (info,) = pool.log()
    assert repr(info) == f"<commit {commit} by ada, {info.date:%Y-%m-%dT%H:%M:%SZ}: by hand>"
    transaction = pool.begin()
    assert repr(transaction) == f"<transaction {transaction.id}, open>"
    transaction.abandon()
    assert repr(transaction) == f"<transaction {transaction.id}, ended>"


def test_a_pool_and_a_branch_are_queried_by_their_handles() -> None:
    lake = shoal.create("memory://queried")
    pool = lake.create("logs", key="ts")
    pool.load([{"ts": 1, "host": "a"}, {"ts": 2, "host": "b"}])
    lake.create("other").load([{"x": 1}])
    dev = pool.create_branch("dev")
    dev.load([{"ts": 3}])
    assert pool.query().to_list() == [{"ts": 1, "host": "a"}, {"ts": 2, "host": "b"}]
    assert pool.query("host == 'b' | yield ts").to_list() == [2]
    assert dev.query("count()").to_list() == [3]
    assert dev.query("from other").to_list() == [{"x": 1}]
    lake.rename("logs", "renamed")
    assert pool.query("count()", statistics=True, engine="interp").to_list() == [2]
    with pytest.raises(NotFound, match="branch not found"):
        pool.branch("nope").query()


def test_the_schema_of_a_branch_is_that_of_its_table() -> None:
    lake = shoal.create("memory://schema")
    pool = lake.create('odd "name"', key="ts")
    pool.load([{"ts": 1, "host": "a"}, {"ts": 2, "took": 1.5}])
    assert pool.schema() == {"ts": "BIGINT", "host": "VARCHAR", "took": "DOUBLE"}
    dev = pool.create_branch("dev")
    dev.load([{"ts": 3, "user": {"name": "x"}}])
    assert dev.schema()["user"] == 'STRUCT("name" VARCHAR)'
    assert "user" not in pool.schema()
