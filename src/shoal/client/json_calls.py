"""Calls to a service that are answered by one JSON value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shoal.client.transport import Access, Request, Transport
from shoal.errors import CorruptData

_SECONDS = 60.0
_JSON = "application/json"


class JsonCalls:
    """A service, and the token that proves who calls."""

    def __init__(self, access: Access) -> None:
        self._transport = Transport(access)

    def __call__(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer; None if it is empty. An error is raised as what it was there."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": _JSON, "Content-Type": _JSON}
        answer = self._transport.send(Request(method, path, headers, data, _SECONDS))
        if answer.is_error:
            raise answer.error()
        with answer:
            return _parse(answer.url, answer.read())


def _parse(url: str, data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except (ValueError, RecursionError):
        raise CorruptData(f"{url}: the answer is no JSON (is it a service of Shoal?)") from None
