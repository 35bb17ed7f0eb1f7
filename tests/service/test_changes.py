"""The change feed over HTTP: its formats, its end, and followers that come and go."""

from __future__ import annotations

import http.client
import io
import json
import re
import time
from urllib.parse import urlsplit

import pyarrow.ipc as ipc
import pytest
from tests.service.conftest import Api

import shoal

PATIENCE = 30.0


@pytest.fixture(scope="module")
def pool(api: Api) -> str:
    api.post(
        "/pool", {"name": "followed", "layout": {"order": "asc", "keys": [["id"]]}, "settings": {"primary": [["id"]]}}
    )
    api.post("/pool/followed/branch/main", b'{"id":1,"name":"a"}{"id":2}')
    api.post("/pool/followed/branch/main?mode=upsert", b'{"id":2,"name":5}')
    return "followed"


def test_each_format_has_every_change(api: Api, pool: str) -> None:
    path = f"/pool/{pool}/changes"
    lines = api.call("GET", path, accept="application/x-ndjson").data.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["change"], row["after"]) for row in rows] == [
        ("insert", {"id": 1, "name": "a"}), ("insert", {"id": 2}), ("update", {"id": 2, "name": 5}),
    ]  # fmt: skip
    table = ipc.open_stream(api.call("GET", path, accept="application/vnd.apache.arrow.stream").data).read_all()
    assert table["change"].to_pylist() == ["insert", "insert", "update"]
    assert [row["id"] for row in table["after"].to_pylist()] == [1, 2, 2]
    zng = api.call("GET", path, accept="application/x-zng").data
    assert shoal.query("yield after.id", io.BytesIO(zng)).to_list() == [1, 2, 2]
    assert api.call("GET", path, accept="text/csv").data.count(b"\n") == 4


def test_parameters_choose_commits(api: Api, pool: str) -> None:
    first = json.loads(api.call("GET", f"/pool/{pool}/changes", accept="application/x-ndjson").data.splitlines()[0])
    for query, count in ((f"since={first['commit']}", 1), (f"since={first['commit']}/1", 2), ("until=main", 3),
                         ("since=main", 0), ("branch=main&since=", 3)):  # fmt: skip
        answer = api.call("GET", f"/pool/{pool}/changes?{query}", accept="application/x-ndjson")
        assert (answer.status, len(answer.data.splitlines())) == (200, count), query
    for query, status in (("since=nosuch", 404), ("follow=T&until=main", 400), ("branch=nosuch&follow=T", 404)):
        assert api.call("GET", f"/pool/{pool}/changes?{query}").status == status, query


def test_formats_with_columns_have_them_without_changes(api: Api, pool: str) -> None:
    path = f"/pool/{pool}/changes?since=main"
    names = ["change", "before", "after", "commit", "author", "ts"]
    table = ipc.open_stream(api.call("GET", path, accept="application/vnd.apache.arrow.stream").data).read_all()
    assert (table.column_names, table.num_rows) == (names, 0)
    assert api.call("GET", path, accept="text/csv").data.decode().strip() == ",".join(names)
    assert api.call("GET", path, accept="application/x-ndjson").data == b""


def running(api: Api) -> float:
    text = api.call("GET", "/metrics", accept="*/*").data.decode()
    return float(re.search(r"^shoal_queries_running ([\d.]+)", text, re.MULTILINE)[1])  # type: ignore[index]


def test_a_follower_gets_what_comes_and_frees_its_place_when_it_leaves(api: Api, pool: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(api.served.url).netloc, timeout=PATIENCE)
    headers = {"Accept": "application/x-ndjson"}
    connection.request("GET", f"/pool/{pool}/changes?since=main&follow=T", headers=headers)
    for number in range(10, 13):
        api.post(f"/pool/{pool}/branch/main", f'{{"id":{number}}}'.encode())
        if number == 10:
            answer = connection.getresponse()
        assert json.loads(answer.readline())["after"] == {"id": number}
    assert running(api) == 1
    connection.close()
    answer.close()
    deadline = time.monotonic() + PATIENCE
    while running(api) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running(api) == 0
