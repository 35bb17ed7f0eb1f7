"""A request with an idempotency key is carried out once, however often it comes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3
from tests.service.conftest import Api

from shoal.testing.services import serving

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
    assert gone.status == 404
    assert json.loads(gone.data)["error"].endswith(": this pool has been dropped meanwhile")
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


def test_what_is_repeated_in_a_transaction_over_several_pools_happens_once(api: Api, pool: str) -> None:
    api.post("/pool", {"name": f"{pool}-2", "layout": {"order": "asc", "keys": [["id"]]}})
    body = {"pools": [pool, f"{pool}-2"]}
    begun = [api.post("/transaction", body, **keyed(f"{pool}-t"))["id"] for _ in range(2)]
    assert begun[0] == begun[1]
    path = f"/transaction/{begun[0]}"
    for place in (pool, f"{pool}-2"):
        for _ in range(2):  # the same key on the other branch is another step
            answer = api.call("POST", f"{path}/load", ROWS, params={"place": place}, **keyed(f"{pool}-l"))
            assert answer.status == 204
    statement = {"statement": f"insert into {pool} (id) values (3)"}
    for _ in range(2):
        api.post(f"{path}/sql", statement, **keyed(f"{pool}-s"))
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: api.post(f"{path}/commit", **keyed(f"{pool}-c")), range(8)))
    assert len({tuple(sorted(each["commit"] for each in answer["commits"])) for answer in done}) == 1
    assert api.query(f"from {pool} | count()") == [3]
    assert api.query(f"from {pool}-2 | count()") == [2]
    assert len(api.get(f"/pool/{pool}/revision/main/log")) == 1


def test_a_commit_that_comes_again_after_a_restart_is_found(tmp_path: Path) -> None:
    http = urllib3.PoolManager()
    with serving(tmp_path / "lake", tmp_path, ["-log.level", "warn"]) as served:
        api = Api(served, http)
        for name in ("a", "b"):
            api.post("/pool", {"name": name, "layout": {"order": "asc", "keys": [["id"]]}})
        told = []
        for places in (["a", "b"], ["a"]):
            begun = api.post("/transaction", {"pools": ["a", "b"]})
            for place in places:
                api.call("POST", f"/transaction/{begun['id']}/load", ROWS, params={"place": place})
            told.append((begun, api.post(f"/transaction/{begun['id']}/commit")))
        lost = api.post("/transaction", {"pools": ["a", "b"]})
        api.call("POST", f"/transaction/{lost['id']}/load", ROWS, params={"place": "a"})
    with serving(tmp_path / "lake", tmp_path, ["-log.level", "warn"]) as served:
        api = Api(served, http)
        for begun, done in told:
            # What has changed one branch has no decision, and is looked for there.
            body = {"places": begun["places"]}
            again = api.post(f"/transaction/{begun['id']}/commit", body)
            assert again["id"] == done["id"]
            assert by_place(again) == by_place(done)
        forgotten = api.call("POST", f"/transaction/{lost['id']}/commit", {"places": lost["places"]})
        assert (forgotten.status, forgotten.headers["Shoal-Error"]) == (404, "not_found")
        assert api.query("from a | count()") == [4]
        assert api.query("from b | count()") == [2]
    http.clear()


def by_place(answer: Any) -> dict[str, str]:
    return {each["place"]: each["commit"] for each in answer["commits"]}
