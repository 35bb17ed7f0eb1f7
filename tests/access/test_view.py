"""The view of a lake that a caller gets is closed but for what it lists."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import shoal
from shoal.access.view import Pools, VisibleLake, check_plan, policy_of, pool_to_load
from shoal.engines.interp.engine import evaluate
from shoal.errors import Forbidden, NotFound
from shoal.ids import new, to_text
from shoal.lake import lake
from shoal.lake.decisions import Decision, Part
from shoal.lake.keys import parse_sort_key
from shoal.lake.lake import Lake, open_at
from shoal.lake.pool_config import PoolConfig
from shoal.lang.compile import compile_program
from shoal.planner.execute import Question
from shoal.planner.lake_query import ask
from shoal.sources.policy import NO_SOURCES
from shoal.storage.memory import MemoryStore

OWN = {"author", "require_load", "require_create", "sources"}
"""What a view has beside the protocol: the rules of its caller."""


def refuse(pool_id: str, name: str) -> None:
    raise AssertionError(f"{name} was to be loaded into")


@pytest.fixture
def whole() -> Lake:
    made = lake.create(MemoryStore())
    for name in ("hidden", "seen"):
        made.create_pool(PoolConfig(new(), name, parse_sort_key("k")))
    return made


@pytest.fixture
def view(whole: Lake) -> VisibleLake:
    seen = to_text(whole.pool("seen").config.id)
    return VisibleLake(whole, lambda pool_id: pool_id == seen, refuse)


def public_names(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_a_view_has_what_the_protocol_lists_and_nothing_else(view: VisibleLake) -> None:
    assert public_names(view) - OWN == public_names(Pools)


def test_a_method_of_the_lake_that_nobody_thought_of_is_closed(
    view: VisibleLake, whole: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lake, "read_everything", lambda self: list(self.configs()), raising=False)
    assert len(whole.read_everything()) == 2  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        view.read_everything()  # type: ignore[attr-defined]
    assert not isinstance(view, Lake)


def test_every_method_that_names_a_pool_refuses_one_that_is_hidden(view: VisibleLake, whole: Lake) -> None:
    ident = to_text(whole.pool("hidden").config.id)
    calls: dict[str, Callable[[str], object]] = {
        "pool": lambda name: view.pool(name),
        "rename_pool": lambda name: view.rename_pool(name, "other"),
        "drop_pool": lambda name: view.drop_pool(name),
        "alter_pool": lambda name: view.alter_pool(name, (("id",),), lambda pool, commit: None),
    }
    named = {
        name
        for name, method in inspect.getmembers(Pools, inspect.isfunction)
        if {"name", "old"} & set(inspect.signature(method).parameters)
    }
    assert named == set(calls)
    for call in calls.values():
        for name in ("hidden", ident):
            with pytest.raises(NotFound, match="pool not found"):
                call(name)
    assert [config.name for config in view.configs()] == ["seen"]
    assert [config.name for config in whole.configs()] == ["hidden", "seen"]


def test_suggestions_name_only_pools_that_are_seen(view: VisibleLake) -> None:
    for name, hint in (("hiden", ""), ("hidden", ""), ("sene", " (did you mean seen?)")):
        with pytest.raises(NotFound) as e:
            view.pool(name)
        assert str(e.value) == f"{name}: pool not found{hint}"
        assert e.value.__cause__ is None


def test_a_view_reads_no_sources_unless_its_policy_allows_them(view: VisibleLake, whole: Lake) -> None:
    program = compile_program("file /etc/hostname", evaluate)
    assert policy_of(view) is NO_SOURCES
    with pytest.raises(Forbidden):
        check_plan(view, program)
    check_plan(whole, program)


def test_a_lake_of_an_unknown_kind_reads_no_sources_and_loads_nowhere(view: VisibleLake) -> None:
    class Stranger:
        def pool(self, name: str) -> object:
            return view.pool(name)

    stranger: Pools = Stranger()  # type: ignore[assignment]
    assert policy_of(stranger) is NO_SOURCES
    with pytest.raises(NotFound):
        pool_to_load(stranger, "seen")


def test_a_transaction_shows_nothing_of_pools_that_are_hidden(tmp_path: Path) -> None:
    opened = shoal.create(str(tmp_path / "lake"))
    for name in ("hidden", "hidden-2", "seen"):
        opened.create(name, key="k")
    for places in (["hidden", "seen"], ["hidden", "hidden-2"]):
        with opened.transaction(places) as t:
            for place in places:
                t.load(place, [{"k": 1}])
    whole = open_at(opened.uri)
    aborted = [Part(whole.pool(name).config.id, "main", None) for name in ("hidden", "seen")]
    for parts in ([aborted[0]], aborted, []):
        whole.decisions.decide(Decision(new(), False, 2**62, tuple(parts)))
    seen = whole.pool("seen").config.id
    view = VisibleLake(whole, lambda pool_id: pool_id == to_text(seen), refuse)
    program = "from :transactions | yield {state,message,parts:len(parts)}"
    shown = ask(view, Question(program)).to_list()
    assert shown == [
        {"state": "committed", "message": "changed seen@main", "parts": 1},
        {"state": "aborted", "message": "", "parts": 0},
    ]
    assert b"hidden" not in repr(list(view.pool("seen").log(view.pool("seen").resolve()))).encode()
    everything = ask(whole, Question(program)).to_list()
    assert [each["state"] for each in everything] == ["committed"] * 2 + ["aborted"] * 3
    assert everything[0]["message"] == "changed hidden@main, seen@main"
