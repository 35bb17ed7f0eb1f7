"""Queries of a service end at its limits, and when their clients leave."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3
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
