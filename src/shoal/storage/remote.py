"""Inputs from somewhere else: http, https and s3 URLs. What fetches them is imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shoal.errors import Unsupported
from shoal.storage.inputs import Input

_FETCHERS = {"http": "http", "https": "http", "s3": "s3"}
"""The module of this package that opens URLs of a scheme."""


def open_url(url: str) -> Input:
    """The file behind a URL."""
    return _fetcher(url).open_url(url)  # type: ignore[no-any-return]


def open_request(url: str, method: str, headers: tuple[tuple[str, str], ...], body: bytes) -> Input:
    """The answer to an HTTP request."""
    return _fetcher(url).open_request(url, method, headers, body)  # type: ignore[no-any-return]


def public_name(url: str) -> str:
    """A URL as it may be shown: without a password."""
    user, at, place = url.partition("://")[2].partition("/")[0].rpartition("@")
    name, colon, _ = user.partition(":")
    return url.replace(f"{user}{at}{place}", f"{name}:***@{place}", 1) if colon else url


def _fetcher(url: str) -> Any:
    try:
        return import_module(f"shoal.storage.{_FETCHERS[url.partition('://')[0]]}")
    except ModuleNotFoundError as e:
        if e.name != "obstore":
            raise
        raise Unsupported(f"{url}: needs the package obstore (pip install 'shoal[s3]')") from None
