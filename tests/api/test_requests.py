"""Every verb is one request type, from which the rest follows."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from shoal.api import branch, lake, pool, transaction
from shoal.api.requests import VERBS, Request, body_of, params_of
from shoal.client import remote_lake
from shoal.lazy import load
from shoal.local.executor import is_implemented
from shoal.local.lake import IMPLEMENTATIONS
from shoal.service.routes import ROUTES

REQUESTS: list[type[Request[Any]]] = [
    kind
    for module in (branch, lake, pool, transaction)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Request)
    and kind is not Request
    and kind.__module__ == module.__name__
]
SENT = {"note", "op"}
"""Fields that travel in headers."""


def test_a_lake_in_a_store_carries_out_every_request() -> None:
    load(*IMPLEMENTATIONS)
    assert [kind for kind in REQUESTS if not is_implemented(kind)] == []


def test_every_request_travels_in_the_common_way_or_in_one_that_the_client_lists() -> None:
    assert {kind for kind in REQUESTS if kind not in VERBS} <= set(remote_lake._OWN_WAY)
    assert {route.request for route in ROUTES if route.request is not None} == set(VERBS)


@pytest.mark.parametrize("kind", VERBS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_verb_travels_in_one_place(kind: type[Request[Any]]) -> None:
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    places = [*kind.http.path_names, *params_of(kind), *body_of(kind), *(SENT & fields)]
    assert len(places) == len(set(places))
    assert set(places) == fields - {"includes"}, "includes are put in front of the program before it travels"


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_request_is_a_value_and_says_what_it_does(kind: type[Request[Any]]) -> None:
    needed = [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]  # type: ignore[arg-type]
    one, other = (kind(*needed) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert (kind.__doc__ or "").strip().endswith(".")
