"""Calls to a service that are answered by one JSON value, or by an error, which is raised as what it was there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from shoal import errors
from shoal.errors import CorruptData, ShoalError, StorageFailure

_SECONDS = 60.0
_KINDS = {each.kind: each for each in ShoalError.__subclasses__() if each.__module__ == errors.__name__}


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """A service, and the token that proves who calls."""

    url: str
    token: str | None = field(default=None, repr=False)

    def __call__(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer; None if it is empty. Redirects are not followed: the token is for this service alone."""
        urllib3: Any = import_module("urllib3")
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib3.PoolManager(retries=False, timeout=_SECONDS) as manager:
                answer = manager.request(method, self.url + path, body=data, headers=headers, redirect=False)
        except urllib3.exceptions.HTTPError as e:
            raise StorageFailure(f"{self.url}: the service does not answer: {e}") from None
        if answer.status >= 300:
            raise _failure(self.url, answer)
        return _parse(self.url, answer.data) if answer.data else None


def _failure(url: str, answer: Any) -> ShoalError:
    kind = _KINDS.get(answer.headers.get("Shoal-Error", ""))
    if kind is None:
        return StorageFailure(f"{url}: the service answers with status {answer.status} (is it one of Shoal?)")
    told = _parse(url, answer.data)
    return kind(str(told.get("error") if isinstance(told, dict) else told))


def _parse(url: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptData(f"{url}: the answer is no JSON (is it a service of Shoal?)") from None
