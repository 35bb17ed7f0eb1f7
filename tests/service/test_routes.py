"""What each route answers."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lz4.frame
import pytest
import zstandard
from tests.service.conftest import Api

from shoal.formats.registry import by_name, formats
from shoal.ids import parse, to_text
from shoal.testing.files import FILES
from shoal.testing.services import Served

ROWS = b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n'


@pytest.fixture
def pool(api: Api, request: pytest.FixtureRequest) -> str:
    name = f"p{abs(hash(request.node.name))}"
    api.post("/pool", {"name": name, "layout": {"order": "asc", "keys": [["id"]]}, "settings": {"inline": 0}})
    return name


def load(api: Api, pool: str, data: bytes = ROWS, **how: Any) -> str:
    answer = api.post(f"/pool/{pool}/branch/main", data, **how)
    assert answer["warnings"] == []
    return str(answer["commit"])


def test_a_service_says_what_it_is(api: Api) -> None:
    assert api.get("/version") == {"version": "0.1.0"}
    assert api.call("GET", "/status").data == b"ok\n"
    assert b"shoal_requests_total" in api.call("GET", "/metrics").data
    assert api.get("/lake")["version"] == 1


def test_a_pool_is_created_renamed_and_dropped(api: Api) -> None:
    made = api.post("/pool", {"name": "first/one"})
    assert made["pool"]["layout"] == {"order": "desc", "keys": [["ts"]]}
    assert made["branch"]["commit"] == "0x" + "00" * 20
    assert api.call("POST", "/pool", {"name": "first/one"}).status == 409
    assert api.call("PUT", "/pool/first%2Fone", {"name": "second"}).status == 204
    assert "second" in [each["name"] for each in api.get("/pool")]
    assert api.get("/pool/second")["id"] == made["pool"]["id"]
    assert api.call("GET", "/pool/second/stats").status == 204
    assert api.call("DELETE", "/pool/second").status == 204
    gone = api.call("DELETE", "/pool/second")
    assert gone.status == 404
    assert gone.headers["Shoal-Error"] == "not_found"
    assert json.loads(gone.data) == {"type": "Error", "kind": "item does not exist", "error": "second: pool not found"}


def test_data_goes_in_by_any_format_and_comes_out_by_any(api: Api, pool: str, tmp_path: Any) -> None:
    load(api, pool)
    for each in formats():
        if not each.media_types or each.writer is None or each.name in ("line", "zeek"):
            continue
        media = each.media_types[0]
        answer = api.call("POST", "/query", {"query": f"from {pool} | sort id"}, accept=media)
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith(media)
        if each.reader is None or each.name in ("json", "ndjson"):
            continue
        copy = f"{pool}_{each.name}"
        api.post("/pool", {"name": copy, "layout": {"order": "asc", "keys": [["id"]]}})
        load(api, copy, answer.data, headers={"Content-Type": media})
        assert api.query(f"from {copy}") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
        api.call("DELETE", f"/pool/{copy}")
    assert by_name("zng").media_types == ("application/x-zng",)


def test_a_compressed_body_is_unwrapped_once(api: Api, pool: str) -> None:
    load(api, pool, gzip.compress(ROWS))
    load(api, pool, gzip.compress(ROWS), headers={"Content-Encoding": "gzip"})
    assert api.query(f"from {pool} | count()") == [4]
    twice = api.call("POST", f"/pool/{pool}/branch/main", gzip.compress(gzip.compress(ROWS)))
    assert (twice.status, twice.headers["Shoal-Error"]) == (400, "invalid_input")


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, lz4.frame.compress, zstandard.compress])
def test_a_body_may_have_any_compression_that_files_have(pack: Callable[[bytes], bytes], api: Api, pool: str) -> None:
    load(api, pool, pack(ROWS))
    assert api.query(f"from {pool} | count()") == [2]


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_programs_are_loaded(name: str, api: Api, pool: str) -> None:
    load(api, pool, FILES[name])
    load(api, pool, FILES[name], headers={"Content-Type": by_name(name).media_types[0]})
    load(api, pool, gzip.compress(FILES[name]))
    assert sorted(each["b"] for each in api.query(f"from {pool}")) == ["x"] * 3 + ["é"] * 3


def test_the_members_of_an_archive_are_loaded(api: Api, pool: str) -> None:
    load(api, pool, zipped({"a.json": ROWS, "b.json": ROWS}))
    load(api, pool, zipped({"a.json": ROWS}), params={"format": "json"})
    assert api.query(f"from {pool} | count()") == [6]
    bad = api.call("POST", f"/pool/{pool}/branch/main", zipped({"a.json": b"oops"}), headers={"Shoal-Source": "in.zip"})
    assert (bad.status, json.loads(bad.data)["error"].startswith("in.zip: zip: a.json: ")) == (400, True)


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_a_body_may_be_text_in_another_encoding(api: Api, pool: str) -> None:
    rows = "id,name\n1,José\n"
    load(api, pool, rows.encode("latin-1"), params={"encoding": "latin-1"})
    load(api, pool, rows.encode("utf-16"), params={"format": "csv"})
    assert api.query(f"from {pool} | cut name") == [{"name": "José"}] * 2
    bad = api.call("POST", f"/pool/{pool}/branch/main", rows.encode("latin-1"), params={"encoding": "klingon"})
    assert (bad.status, json.loads(bad.data)["error"]) == (
        400,
        "encoding: 'klingon' is not known (such as utf-8, utf-16, latin-1, cp1252, shift_jis)",
    )


def test_an_error_in_the_data_has_its_place_and_the_name_that_the_client_gave(api: Api, pool: str) -> None:
    bad = api.call("POST", f"/pool/{pool}/branch/main", b'{"a":1}\n{"a":', headers={"Shoal-Source": "in.json"})
    assert bad.status == 400
    assert json.loads(bad.data)["error"].startswith("in.json: ")
    assert api.query(f"from {pool} | count()") == []


def test_branches_and_tags(api: Api, pool: str) -> None:
    first = load(api, pool)
    api.post(f"/pool/{pool}", {"name": "live", "commit": first})
    api.post(f"/pool/{pool}/tag", {"name": "v1", "commit": "main"})
    assert [each["name"] for each in api.get(f"/pool/{pool}/branch")] == ["live", "main"]
    assert [(each["name"], each["commit"]) for each in api.get(f"/pool/{pool}/tag")] == [("v1", first)]
    api.post(f"/pool/{pool}/branch/live", b'{"id":3}')
    merged = api.post(f"/pool/{pool}/branch/main/merge/live")["commit"]
    assert api.get(f"/pool/{pool}/branch/main")["commit"] == merged
    assert api.query(f"from {pool} | count()") == [3]
    assert api.query(f"from {pool}@v1 | count()") == [2]
    added = api.get(f"/pool/{pool}/diff", params={"old": "v1", "new": "main", "values": "T"})
    assert added == [{"side": "+", "value": {"id": 3}}]
    assert len(api.get(f"/pool/{pool}/diff", params={"old": "v1", "new": "main"})) == 1
    api.post(f"/pool/{pool}/branch/main/revert/{merged}")
    assert api.query(f"from {pool} | count()") == [2]
    assert len(api.get(f"/pool/{pool}/revision/main/log")) == 3
    assert api.get(f"/pool/{pool}/revision/v1") == {"commit": first}
    assert api.call("DELETE", f"/pool/{pool}/tag/v1").status == 204
    assert api.call("DELETE", f"/pool/{pool}/branch/live").status == 204
    assert api.call("GET", f"/pool/{pool}/branch/live").status == 404


def test_a_branch_is_rebased(api: Api, pool: str) -> None:
    load(api, pool)
    api.post(f"/pool/{pool}", {"name": "live", "commit": "main"})
    api.post(f"/pool/{pool}/branch/live", b'{"id":3}')
    load(api, pool, b'{"id":4}')
    moved = api.post(f"/pool/{pool}/branch/live/rebase/main")["commit"]
    assert api.get(f"/pool/{pool}/branch/live")["commit"] == moved
    assert api.query(f"from {pool}@live | count()") == [4]


def test_data_is_deleted_by_ids_and_by_a_filter(api: Api, pool: str) -> None:
    load(api, pool)
    load(api, pool, b'{"id":3}')
    ids = [each["id"] for each in api.get(f"/pool/{pool}/revision/main/objects")]
    api.post(f"/pool/{pool}/branch/main/delete", {"where": "id == 1"})
    assert api.query(f"from {pool} | sort id | yield id") == [2, 3]
    api.post(f"/pool/{pool}/branch/main/delete", {"object_ids": [ids[-1]]})
    assert api.query(f"from {pool} | yield id") == [2]
    both = api.call("POST", f"/pool/{pool}/branch/main/delete", {"where": "true", "object_ids": ids})
    assert both.status == 400


def test_objects_are_compacted_and_vacuumed(api: Api, pool: str) -> None:
    for _ in range(3):
        load(api, pool)
    (run,) = api.get(f"/pool/{pool}/branch/main/runs")
    assert len(run) == 3
    (done,) = api.post(f"/pool/{pool}/branch/main/manage")
    assert (done["objects"], done["error"]) == (3, "")
    assert len(api.get(f"/pool/{pool}/revision/main/objects")) == 1
    load(api, pool)
    first = api.get(f"/pool/{pool}/revision/main/log")[0]["id"]
    assert api.post(f"/pool/{pool}/vacuum", params={"dryrun": "T", "grace": "0"})["objects"] == 0
    assert api.call("POST", f"/pool/{pool}/vacate/{first}").status == 204
    assert len(api.post(f"/pool/{pool}/revision/main/vacuum", params={"grace": "0"})["object_ids"]) == 3
    assert api.post("/vacuum", params={"dryrun": "T"})["objects"] == 0
    assert api.query(f"from {pool} | count()") == [8]
    left, _ = api.get(f"/pool/{pool}/revision/main/objects")
    assert api.call("POST", f"/pool/{pool}/purge", {"object_ids": [left["id"]]}).status == 409
    api.post(f"/pool/{pool}/branch/main/delete", {"object_ids": [left["id"]]})
    assert api.post(f"/pool/{pool}/purge", {"object_ids": [left["id"]]}) == {"object_ids": [left["id"]]}


def test_a_transaction_is_seen_when_it_is_committed(api: Api, pool: str) -> None:
    load(api, pool)
    begun = api.post(f"/pool/{pool}/branch/main/transaction", {"isolation": "serializable", "expires": 60})
    place = f"/pool/{pool}/branch/main/transaction/{begun['id']}"
    assert api.call("POST", f"{place}/load", b'{"id":3}{"id":4}').status == 204
    assert api.call("POST", f"{place}/delete", {"where": "id == 1"}).status == 204
    assert api.post(f"{place}/query", {"query": "sort id | yield id"}) == [2, 3, 4]
    assert api.query(f"from {pool} | count()") == [2]
    note = {"Zed-Commit": json.dumps({"author": "me", "body": "all of it", "meta": "{a:1}"})}
    commit = api.post(f"{place}/commit", headers=note)["commit"]
    assert api.query(f"from {pool} | count()") == [3]
    assert api.post(f"{place}/commit", params={"position": begun["position"]})["commit"] == commit
    newest = api.get(f"/pool/{pool}/revision/main/log")[0]
    assert (newest["author"], newest["message"], newest["meta"]) == ("me", "all of it", {"a": 1})
    again = api.post(f"/pool/{pool}/branch/main/transaction")["id"]
    assert api.call("DELETE", f"/pool/{pool}/branch/main/transaction/{again}").status == 204
    assert api.call("POST", f"/pool/{pool}/branch/main/transaction/{again}/commit").status == 404


@pytest.fixture
def two(api: Api, pool: str) -> tuple[str, str]:
    """A pool, and a pool with a primary key and a branch called dev."""
    keyed = f"{pool}-keyed"
    api.post("/pool", {"name": keyed, "layout": {"order": "asc", "keys": [["ts"]]}, "settings": {"primary": [["ts"]]}})
    api.post(f"/pool/{keyed}/branch/main", {"ts": 1, "n": 1})
    api.post(f"/pool/{keyed}", {"name": "dev", "commit": "main"})
    return pool, keyed


def test_a_transaction_over_several_pools_is_seen_in_all_of_them_when_it_is_committed(
    api: Api, two: tuple[str, str]
) -> None:
    pool, keyed = two
    begun = api.post("/transaction", {"pools": [pool, f"{keyed}@dev"], "expires": 60})
    assert [each["place"] for each in begun["places"]] == [f"{pool}@main", f"{keyed}@dev"]
    path, dev = f"/transaction/{begun['id']}", {"place": f"{keyed}@dev"}
    assert api.call("POST", f"{path}/load", b'{"ts":7}', params={"place": pool}).status == 204
    assert api.call("POST", f"{path}/load", b'{"ts":1,"n":2}', params={**dev, "mode": "upsert"}).status == 204
    assert api.call("POST", f"{path}/load", b'{"ts":3,"n":3}', params=dev).status == 204
    update = {"where": "ts == 1", "program": "put n := n + 10"}
    assert api.call("POST", f"{path}/update", update, params=dev).status == 204
    assert api.call("POST", f"{path}/delete", {"where": "ts == 3"}, params=dev).status == 204
    assert (
        api.post(f"{path}/sql", {"statement": f'insert into "{keyed}@dev" (ts, n) values (4, 4)'})[0]["inserted"] == 1
    )
    assert api.post(f"{path}/query", {"query": f"from {keyed}@dev | sort ts | yield n"}) == [12, 4]
    assert api.post(f"{path}/query", {"query": "count()"}, params=dev) == [2]
    assert api.query(f"from {keyed}@dev | yield n") == [1]
    assert api.get(path)["state"] == "open"
    assert begun["id"] in [each["id"] for each in api.get("/transaction")]
    note = {"Zed-Commit": json.dumps({"author": "ada", "body": "sold"})}
    done = api.post(f"{path}/commit", headers=note)
    assert {each["place"]: each["commit"] for each in done["commits"]} == {
        f"{pool}@main": api.get(f"/pool/{pool}/branch/main")["commit"],
        f"{keyed}@dev": api.get(f"/pool/{keyed}/branch/dev")["commit"],
    }
    shown = api.get(path)
    assert (shown["state"], shown["author"], shown["message"]) == ("committed", "ada", "sold")
    assert sorted(each["place"] for each in shown["commits"]) == sorted(each["place"] for each in done["commits"])
    assert begun["id"] not in [each["id"] for each in api.get("/transaction")]
    assert api.query(f"from {keyed} | yield n") == [1]


def test_what_makes_no_sense_in_a_transaction_over_several_pools_is_refused(api: Api, two: tuple[str, str]) -> None:
    pool, keyed = two

    def refused(method: str, path: str, body: Any = None, **how: Any) -> tuple[int, str]:
        answer = api.call(method, path, body, **how)
        return answer.status, json.loads(answer.data)["error"]

    assert refused("POST", "/transaction", {})[0] == 400
    assert refused("POST", "/transaction", {"pools": [1]}) == (400, "pools: 1 is not a text")
    assert refused("POST", "/transaction", {"pools": [pool, "nosuch"]}) == (404, "nosuch: pool not found")
    path = f"/transaction/{api.post('/transaction', {'pools': [pool, keyed]})['id']}"
    status, error = refused("POST", f"{path}/load", b'{"ts":1}')
    assert (status, error) == (400, f"the parameter place has to say which branch: {pool}@main, {keyed}@main")
    status, error = refused("POST", f"{path}/load", b'{"ts":1}', params={"place": f"{keyed}@dev"})
    assert (status, "not part of this transaction" in error) == (404, True)
    assert refused("POST", f"{path}/commit")[0] == 400, "nothing is staged"
    assert api.call("POST", f"{path}/commit", params={"optional": "T"}).status == 204
    assert refused("POST", f"{path}/commit")[0] == 404
    other = f"/transaction/{api.post('/transaction', {'pools': [pool, keyed]})['id']}"
    assert api.call("DELETE", other).status == 204
    assert refused("GET", other)[0] == 404


def test_queries_are_explained_described_and_asked_in_sql(api: Api, pool: str) -> None:
    load(api, pool)
    (plan,) = api.post("/query/explain", {"query": f"from {pool} | count()", "engine": "duckdb"})
    assert (plan["pool"], plan["objects"], plan["engine"]) == (pool, 1, "duckdb")
    assert api.post("/query/sql", {"statement": f"select sum(id) as s from {pool}"}) == [{"s": 3}]
    assert api.post("/compile", {"query": "count()"})[0]["kind"] == "OpExpr"
    bad = json.loads(api.call("POST", "/query", {"query": "count("}).data)
    assert bad["compilation_errors"] == [{"Msg": "error parsing Zed", "Pos": 6, "End": -1}]


def test_control_messages_tell_of_channel_statistics_and_errors(api: Api, pool: str) -> None:
    load(api, pool)
    ask = {"query": f"from {pool} | yield id"}
    lines = api.call("POST", "/query", ask, "application/x-zjson", params={"ctrl": "T", "statistics": "T"}).data
    told = [json.loads(line) for line in lines.splitlines()]
    assert [each["type"] for each in told if isinstance(each["type"], str)] == [
        "QueryChannelSet",
        "QueryChannelEnd",
        "QueryStats",
    ]
    assert told[-1]["value"]["records_read"] == 2


def test_the_end_of_a_query_can_be_asked_for(api: Api, pool: str) -> None:
    load(api, pool, b"{}")
    failed = api.call("POST", "/query", {"query": f"from {pool}"}, "application/x-parquet")
    assert failed.status == 400
    error = api.get(f"/query/status/{failed.headers['X-Request-ID']}")["error"]
    assert error == json.loads(failed.data)["error"]
    good = api.call("POST", "/query", {"query": f"from {pool}"})
    assert api.get(f"/query/status/{good.headers['X-Request-ID']}") == {"error": ""}
    assert api.call("GET", "/query/status/nobody").status == 404


@contextmanager
def listening(api: Api, served: Served, last: bytes) -> Iterator[list[bytes]]:
    """What `/events` says, up to something that happens before the end of the block."""
    stream = api.http.request("GET", served.url + "/events", preload_content=False)
    said: list[bytes] = []
    enough = threading.Event()

    def listen() -> None:
        for chunk in stream.stream(16):
            said.append(chunk)
            if last in b"".join(said):
                enough.set()
                return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield said
    assert enough.wait(20)


def test_a_transaction_is_told_on_each_of_its_branches(api: Api, two: tuple[str, str], served: Served) -> None:
    path = f"/transaction/{api.post('/transaction', {'pools': two})['id']}"
    for number, place in enumerate(two):
        api.call("POST", f"{path}/load", {"ts": 10 + number}, params={"place": place})
    with listening(api, served, b"pool-delete") as said:
        commits = api.post(f"{path}/commit")["commits"]
        api.call("DELETE", f"/pool/{two[0]}")
    lines = [line for line in b"".join(said).decode().splitlines() if line.startswith("data: ")][:2]
    told = [json.loads(line.removeprefix("data: ")) for line in lines]
    ids = {(to_text(parse(each["pool"])), to_text(parse(each["commit"]))) for each in commits}
    assert {(each["pool_id"], each["commit_id"]) for each in told} == ids


def test_events_are_told_as_they_happen(api: Api, pool: str, served: Served) -> None:
    with listening(api, served, b"pool-delete") as said:
        load(api, pool)
        api.call("DELETE", f"/pool/{pool}")
    names = [line for line in b"".join(said).decode().splitlines() if line.startswith("event: ")]
    assert names[:2] == ["event: branch-commit", "event: pool-delete"]
    data = json.loads(b"".join(said).decode().splitlines()[1].removeprefix("data: "))
    assert data["branch"] == "main"
    assert api.call("GET", f"/pool/{data['pool_id']}").status == 404


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/json"])
def test_a_query_that_is_bare_text_is_told_what_to_send(api: Api, kind: str) -> None:
    answer = api.call("POST", "/query", b'from logs | name=="x"', headers={"Content-Type": kind})
    assert answer.status == 400
    error = json.loads(answer.data)["error"]
    assert error.startswith('the body has to be a record (such as {"query":"from logs | name==\\"x\\""}): ')
    assert "\n" not in error
    answer = api.call("POST", "/query/sql", b"select 1", headers={"Content-Type": kind})
    assert 'such as {"statement":"select 1"}' in json.loads(answer.data)["error"]


def test_misspelt_names_are_suggested(api: Api, pool: str) -> None:
    for method, path, body in [
        ("POST", "/query", {"query": f"from {pool}s"}),
        ("GET", f"/pool/{pool}s", None),
        ("POST", "/query/sql", {"statement": f"select * from {pool}s"}),
    ]:
        assert (
            f"{pool}s: pool not found (did you mean {pool}?)" in json.loads(api.call(method, path, body).data)["error"]
        )
    branch = json.loads(api.call("GET", f"/pool/{pool}/branch/mian").data)["error"]
    assert branch == '"mian": branch not found (did you mean main?)'


def test_an_undetected_format_is_one_line_with_details_beside_it(api: Api, pool: str) -> None:
    answer = json.loads(api.call("POST", f"/pool/{pool}/branch/main", b"hello {").data)
    assert "format detection error" in answer["error"]
    assert "\n" not in answer["error"]
    assert "\tcsv: line 1: delimiter ',' not found" in answer["details"][0]


def test_what_is_wrong_with_a_request_is_one_line(api: Api, pool: str) -> None:
    cases = [
        ("POST", "/pool", b"[1,2]", 400),
        ("POST", "/pool", b"{", 400),
        ("POST", "/pool", {"name": 7}, 400),
        ("POST", f"/pool/{pool}/branch/nobody", ROWS, 404),
        ("POST", f"/pool/{pool}/branch/main/compact", {"object_ids": ["x"]}, 400),
        ("POST", f"/pool/{pool}/branch/main/revert/nobody", None, 404),
        ("GET", f"/pool/{pool}/diff", None, 400),
        ("GET", "/nowhere", None, 404),
        ("PATCH", "/pool", None, 405),
    ]
    for method, path, body, status in cases:
        answer = api.call(method, path, body)
        assert answer.status == status, (path, answer.data)
        assert len(answer.data.decode().strip().splitlines()) == 1
        assert "Traceback" not in answer.data.decode()
    assert api.call("GET", "/pool", accept="image/png").status == 400
