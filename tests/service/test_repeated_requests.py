"""A request with an idempotency key is carried out once, however often it comes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.service.conftest import Api

ROWS = b'{"id":1}\n{"id":2}\n'


@pytest.fixture
def pool(api: Api, request: pytest.FixtureRequest) -> str:
    name = f"r{abs(hash(request.node.name))}"
    api.post("/pool", {"name": name, "layout": {"order": "asc", "keys": [["id"]]}})
    return name


def keyed(key: str) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": key}}


def test_a_load_that_comes_again_is_one_commit(api: Api, pool: str) -> None:
    place = f"/pool/{pool}/branch/main"
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda _: api.post(place, ROWS, **keyed("a"))["commit"], range(16)))
    assert len(set(told)) == 1
    assert api.query(f"from {pool} | count()") == [2]
    assert len(api.get(f"/pool/{pool}/revision/main/log")) == 1
    assert api.post(place, ROWS, **keyed("b"))["commit"] != told[0]


def test_a_body_that_is_read_as_it_comes_is_committed_once_as_well(api: Api, pool: str) -> None:
    rows = b"".join(b'{"id":%d,"text":"%s"}\n' % (i, b"x" * 200) for i in range(10_000))
    assert len(rows) > 1 << 20
    place = f"/pool/{pool}/branch/main"
    assert api.post(place, rows, **keyed("c")) == api.post(place, rows, **keyed("c"))
    assert api.query(f"from {pool} | count()") == [10_000]


def test_another_request_under_the_same_key_is_refused(api: Api, pool: str) -> None:
    place = f"/pool/{pool}/branch/main"
    api.post(place, ROWS, **keyed("d"))
    other = api.call("POST", place, b'{"id":3}', **keyed("d"))
    assert (other.status, other.headers["Shoal-Error"]) == (409, "conflict")
    elsewhere = api.call("POST", f"{place}/delete", {"where": "id == 1"}, **keyed("d"))
    assert elsewhere.status == 409
    assert api.query(f"from {pool} | count()") == [2]
    assert api.call("POST", place, ROWS, **keyed("x" * 201)).status == 400


def test_what_became_of_an_operation_is_known_by_its_id(api: Api, pool: str) -> None:
    commit = api.post(f"/pool/{pool}/branch/main", ROWS, **keyed("e"))["commit"]
    assert api.get(f"/pool/{pool}/branch/main/commit/{commit}") == {"commit": commit, "is_done": True}
    nobody = api.get(f"/pool/{pool}/branch/main/commit/0x{'17' * 20}")
    assert nobody == {"commit": "0x" + "00" * 20, "is_done": False}


def test_every_change_can_be_repeated(api: Api, pool: str) -> None:
    api.post(f"/pool/{pool}/branch/main", ROWS)
    made = [api.post("/pool", {"name": f"{pool}-new"}, **keyed(f"{pool}-create")) for _ in range(2)]
    assert made[0]["pool"]["id"] == made[1]["pool"]["id"]
    steps = [
        ("POST", f"/pool/{pool}", {"name": "live", "commit": "main"}),
        ("POST", f"/pool/{pool}/tag", {"name": "v1", "commit": "main"}),
        ("POST", f"/pool/{pool}/branch/live", b'{"id":3}'),
        ("POST", f"/pool/{pool}/branch/main/merge/live", None),
        ("POST", f"/pool/{pool}/branch/main/delete", {"where": "id == 1"}),
        ("DELETE", f"/pool/{pool}/tag/v1", None),
        ("DELETE", f"/pool/{pool}/branch/live", None),
        ("PUT", f"/pool/{pool}-new", {"name": f"{pool}-newer"}),
        ("DELETE", f"/pool/{pool}-newer", None),
    ]
    for number, (method, path, body) in enumerate(steps):
        first = api.call(method, path, body, **keyed(f"{pool}-{number}"))
        again = api.call(method, path, body, **keyed(f"{pool}-{number}"))
        assert first.status in (200, 204), (path, first.data)
        assert (again.status, again.data) == (first.status, first.data), path
        other = api.call(method, path, body, **keyed(f"{pool}-{number}-other"))
        assert other.status != first.status or method == "POST", path
    gone = api.call("POST", "/pool", {"name": f"{pool}-new"}, **keyed(f"{pool}-create"))
    assert (gone.status, json.loads(gone.data)["error"]) == (404, "the pool has been dropped meanwhile")
    assert api.query(f"from {pool} | sort id | yield id") == [2, 3, 3]


def test_a_step_of_a_transaction_that_comes_again_is_one_step(api: Api, pool: str) -> None:
    begun = [api.post(f"/pool/{pool}/branch/main/transaction", {}, **keyed(f"{pool}-t"))["id"] for _ in range(2)]
    assert begun[0] == begun[1]
    place = f"/pool/{pool}/branch/main/transaction/{begun[0]}"
    for _ in range(2):
        assert api.call("POST", f"{place}/load", ROWS, **keyed(f"{pool}-l")).status == 204
    assert json.loads(api.call("POST", f"{place}/query", {"query": "count()"}).data) == [2]
    api.post(f"{place}/commit")
    assert api.query(f"from {pool} | count()") == [2]
