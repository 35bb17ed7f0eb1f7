"""A service for the tests of this folder, and a way to call it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3

from shoal.testing.services import Served, serving


@dataclass(frozen=True, slots=True)
class Api:
    """Requests to one service."""

    served: Served
    http: urllib3.PoolManager

    def call(self, method: str, path: str, body: Any = None, accept: str = "application/json", **how: Any) -> Any:
        """An answer: status, headers, data."""
        headers = {"Accept": accept, **how.get("headers", {})}
        query = "?" + urlencode(how["params"]) if "params" in how else ""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.request(method, self.served.url + path + query, body=data, headers=headers, retries=False)

    def get(self, path: str, **how: Any) -> Any:
        """The JSON of an answer that has to be a good one."""
        return _good(self.call("GET", path, **how))

    def post(self, path: str, body: Any = None, **how: Any) -> Any:
        """The JSON of an answer that has to be a good one."""
        return _good(self.call("POST", path, body, **how))

    def query(self, program: str, **how: Any) -> Any:
        """The values of a query."""
        return self.post("/query", {"query": program}, **how)


def _good(answer: Any) -> Any:
    assert answer.status in (200, 204), (answer.status, answer.data[:1000])
    return json.loads(answer.data) if answer.data else None


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("service")
    with serving(folder / "lake", folder, ["-log.level", "warn"]) as found:
        yield found


@pytest.fixture(scope="module")
def api(served: Served) -> Api:
    return Api(served, urllib3.PoolManager())
