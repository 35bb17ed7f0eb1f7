"""Queries and loads of a service end at its limits, and when their clients leave."""

from __future__ import annotations

import gzip
import io
import json
import socket
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3
import zstandard
from tests.service.conftest import Api

from shoal.testing.services import serving

FLAGS = ["-limit.time", "2s", "-limit.rows", "1000", "-limit.queries", "4", "-limit.caller", "2", "-log.level", "warn"]
ENDLESS = "yield 1 | over [1,2,3,4,5,6,7,8,9,10] " + "".join("| over [1,2,3,4,5,6,7,8,9,10] " for _ in range(12))


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("limited")
    with serving(folder / "lake", folder, FLAGS) as found:
        yield Api(found, urllib3.PoolManager())


def refusal(answer: Any) -> tuple[int, str, str]:
    return answer.status, answer.headers["Shoal-Error"], json.loads(answer.data)["error"]


def test_a_query_that_takes_too_long_ends(limited: Api) -> None:
    began = time.monotonic()
    status, kind, text = refusal(limited.call("POST", "/query", {"query": f"{ENDLESS} | count()"}))
    assert (status, kind) == (400, "stopped")
    assert text.startswith("the query took longer than 2s")
    assert time.monotonic() - began < 20


def test_a_query_that_gives_too_much_ends(limited: Api) -> None:
    status, kind, text = refusal(limited.call("POST", "/query", {"query": ENDLESS}))
    assert (status, kind) == (400, "stopped")
    assert text.startswith("the query returns more than 1000 values")


def test_too_many_queries_of_one_caller_are_turned_away(limited: Api) -> None:
    with ThreadPoolExecutor(6) as threads:
        ask = {"query": f"{ENDLESS} | count()"}
        answers = list(threads.map(lambda _: limited.call("POST", "/query", ask), range(6)))
    kinds = [answer.headers["Shoal-Error"] for answer in answers]
    assert set(kinds) == {"stopped", "too_many"}
    turned_away = next(answer for answer in answers if answer.status == 429)
    assert turned_away.headers["Retry-After"] == "1"
    assert limited.query("yield 1") == [1]


def running(api: Api) -> float:
    figures = api.call("GET", "/metrics").data.decode()
    return float(next(line.split()[1] for line in figures.splitlines() if line.startswith("shoal_queries_running ")))


def test_a_query_ends_when_its_client_leaves(api: Api) -> None:
    body = json.dumps({"query": f"{ENDLESS} | count()"}).encode()
    place = urlsplit(api.served.url)
    with socket.create_connection((place.hostname, place.port)) as connection:
        head = f"POST /query HTTP/1.1\r\nHost: localhost:{place.port}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        wait_until(lambda: running(api) == 1)
    wait_until(lambda: running(api) == 0)


def wait_until(is_so: Any, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


# ---- loads

MANY = b"[" + b"1," * 2_000_000 + b"1]\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("small")
    flags = ["-limit.memory", "256MiB", "-limit.ratio", "20", "-log.level", "warn"]
    with serving(folder / "lake", folder, flags) as found:
        api = Api(found, urllib3.PoolManager())
        api.post("/pool", {"name": "logs", "layout": {"order": "asc", "keys": [["ts"]]}})
        yield api


def load(api: Api, body: bytes, **params: str) -> Any:
    headers = {"Content-Type": "application/json", "Shoal-Source": "a.json"}
    return api.call("POST", "/pool/logs/branch/main", body, headers=headers, params=params)


def test_a_load_that_would_take_too_much_memory_is_refused(small: Api) -> None:
    reply = load(small, MANY)
    assert reply.status == 400
    _, kind, text = refusal(reply)
    assert kind == "invalid_input"
    assert text == (
        "a.json: line 1: one value would take more than 128 MiB of memory, half of the limit "
        "(raise -read.memory, or -limit.memory of a service)"
    )
    assert load(small, MANY[:100_000] + b"1]\n").status == 200


def test_a_load_within_a_transaction_has_the_same_limit(small: Api) -> None:
    begun = small.post("/pool/logs/branch/main/transaction", {})
    path = f"/pool/logs/branch/main/transaction/{begun['id']}/load"
    headers = {"Content-Type": "application/json"}
    status, _, text = refusal(small.call("POST", path, MANY, headers=headers))
    assert (status, text.partition(" (")[0]) == (
        400,
        "line 1: one value would take more than 128 MiB of memory, half of the limit",
    )


@pytest.mark.parametrize("pack, name", [(gzip.compress, "gzip"), (zstandard.compress, "zstd")])
def test_a_body_that_expands_too_much_is_refused(pack: Any, name: str, small: Api) -> None:
    body = pack(b'{"ts":1}\n' * 9_000_000)
    status, _, text = refusal(load(small, body))
    assert status == 400
    assert text.removeprefix("a.json: ").startswith(f"{name}: expands more than 20 times")
    assert text.endswith("(raise -read.ratio, or -limit.ratio of a service)")


def test_an_archive_that_expands_too_much_is_refused(small: Api) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b'{"ts":1}\n' * 9_000_000)
    status, _, text = refusal(load(small, out.getvalue()))
    assert (status, "zip: a.json: deflate: expands more than 20 times" in text) == (400, True)


def test_a_caller_may_ask_for_less_than_the_limit_and_not_for_more(small: Api) -> None:
    text = refusal(load(small, MANY, **{"read.memory": str(1 << 40)}))[2]
    assert "more than 128 MiB" in text
    text = refusal(load(small, b"[" + b"1," * 600_000 + b"1]", **{"read.memory": str(64 << 20)}))[2]
    assert "more than 32 MiB" in text


def test_a_record_of_a_request_has_a_limit_of_its_own(small: Api) -> None:
    status, _, text = refusal(small.call("POST", "/query", b'{"query":"yield 1","x":' + MANY.strip() + b"}"))
    assert (status, "one value would take more than 128 MiB" in text) == (400, True)
