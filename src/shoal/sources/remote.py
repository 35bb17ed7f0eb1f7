"""Inputs from somewhere else: http, https and s3 URLs. What fetches them is imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shoal.errors import Unsupported
from shoal.sources.inputs import Input

_FETCHERS = {"http": "http", "https": "http", "s3": "s3"}
"""The module of this package that opens URLs of a scheme."""


def open_url(url: str) -> Input:
    """The file behind a URL."""
    return _fetcher(url).open_url(url)  # type: ignore[no-any-return]


def open_request(url: str, method: str, headers: tuple[tuple[str, str], ...], body: bytes) -> Input:
    """The answer to an HTTP request."""
    return _fetcher(url).open_request(url, method, headers, body)  # type: ignore[no-any-return]


def _fetcher(url: str) -> Any:
    try:
        return import_module(f"shoal.sources.{_FETCHERS[url.partition('://')[0]]}")
    except ModuleNotFoundError as e:
        if e.name != "obstore":
            raise
        raise Unsupported(f"{url}: needs the package obstore (pip install 'shoal[s3]')") from None
