"""Every verb is one request type, from which the rest follows."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from shoal.api import branch, changes, lake, pool, queries, transaction
from shoal.api.codecs import NOTHING
from shoal.api.requests import VERBS, Http, Need, Request, body_of, names_of, params_of, require_names
from shoal.client import remote_lake
from shoal.errors import InvalidInput
from shoal.lazy import load
from shoal.local.executor import is_implemented
from shoal.local.lake import IMPLEMENTATIONS
from shoal.service.routes import ROUTES

REQUESTS: list[type[Request[Any]]] = [
    kind
    for module in (branch, changes, lake, pool, queries, transaction)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Request)
    and kind is not Request
    and kind.__module__ == module.__name__
]
SENT = {"note", "op"}
"""Fields that travel in headers."""
NO_HTTP: Http[Any] = Http("GET", "", Need.NOTHING, NOTHING, "")
REFERENCES = {"pool", "branch", "commit", "old", "new", "ids", "head", "op"}
"""Fields that refer to what exists, outside of paths."""


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
    assert set(places) == fields - {"includes", "on_warning"}, (
        "includes are put in front of the program before it travels"
    )


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_request_is_a_value_and_says_what_it_does(kind: type[Request[Any]]) -> None:
    needed = [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]  # type: ignore[arg-type]
    one, other = (kind(*needed) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert (kind.__doc__ or "").strip().endswith(".")


FREE = {"partition", "program", "statement", "where", "key", "includes", "data", "note"}
"""Text in a language, data, and notes: they may contain anything."""


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_text_of_a_request_is_a_name_or_listed_as_something_else(kind: type[Request[Any]]) -> None:
    """What is given a name by a request has to be `name`, or at least not to be in the lists by mistake."""
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    existing = fields - set(names_of(kind)) - FREE
    assert existing <= {*getattr(kind, "http", NO_HTTP).path_names, *REFERENCES}
    assert "name" not in existing


@pytest.mark.parametrize("text", ["\0", "a\x1b[2J", "a\nb", "a\u202eb", "a\u2028", "\x9b"])
def test_control_characters_in_names_are_refused(text: str) -> None:
    for request in (pool.CreateBranch("p", text), pool.CreateTag("p", text), lake.CreatePool(text)):
        with pytest.raises(InvalidInput, match="control characters are not allowed in names"):
            require_names(request)
    require_names(queries.Query(text, head=text))
    require_names(pool.DropBranch(text, text))
