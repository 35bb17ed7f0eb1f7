"""Objects in S3 and what speaks like it. Credentials, region and endpoint come from the environment alone.

Without keys nothing is sent: the library would go and ask the metadata service of a cloud for some.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import S3Store

from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.storage.ranged import Ranged

if TYPE_CHECKING:  # the library has this for type checkers only
    from obstore import GetOptions

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT", "AWS_ENDPOINT_URL")
"""The first of these that is set; the one in the middle is what the Zed tools look at."""
_ENDPOINT = re.compile(r"https?://[\w.:\[\]-]+(/[\w./%~-]*)?", re.ASCII)
"""What is no URL makes the library panic."""
_IDLE = timedelta(seconds=30)
_REQUEST = timedelta(minutes=10)
_RETRIES = 3


def open_url(url: str) -> Ranged:
    """The object behind an s3 URL."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise InvalidInput(f"{url}: names no object (write s3://bucket/key)")
    with _named(url):
        store = _open_bucket(bucket, url)
        meta = obstore.head(store, key)
    unchanged: GetOptions = {"if_match": meta["e_tag"]} if meta["e_tag"] else {}

    def fetch(start: int, size: int) -> bytes:
        with _named(url):
            options: GetOptions = {"range": (start, start + size), **unchanged}
            data = bytes(obstore.get(store, key, options=options).bytes())
        if len(data) != size:
            raise StorageFailure(f"{url}: {len(data)} bytes came instead of {size}")
        return data

    return Ranged(fetch, meta["size"], lambda: None)


def _open_bucket(bucket: str, url: str) -> S3Store:
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    is_public = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("true", "1")
    _check_settings(endpoint, is_public, url)
    return S3Store(
        bucket,
        endpoint=endpoint,
        skip_signature=is_public,
        client_options={
            "allow_http": endpoint is not None and endpoint.startswith("http://"),
            "connect_timeout": _IDLE,
            "read_timeout": _IDLE,
            "timeout": _REQUEST,
        },
        retry_config={"max_retries": _RETRIES, "retry_timeout": _IDLE},
    )


def _check_settings(endpoint: str | None, is_public: bool, url: str) -> None:
    if endpoint is not None and not _ENDPOINT.fullmatch(endpoint):
        raise InvalidInput(f"{url}: the endpoint {endpoint!r} is not an http or https URL")
    if not is_public and not (os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY")):
        raise InvalidInput(
            f"{url}: no credentials (set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,"
            " or AWS_SKIP_SIGNATURE=true for a public bucket)"
        )


@contextmanager
def _named(url: str) -> Iterator[None]:
    """Errors in our words, with the URL in front."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"{url}: file does not exist") from None
    except PreconditionError:
        raise StorageFailure(f"{url}: changed while it was read") from None
    except (PermissionDeniedError, UnauthenticatedError):
        raise StorageFailure(f"{url}: permission denied") from None
    except BaseError as e:
        raise StorageFailure(f"{url}: {_problem(str(e))}") from None
    except ValueError as e:
        raise InvalidInput(f"{url}: {_first_line(str(e))}") from None


def _problem(text: str) -> str:
    """The library tells the cause only in its long text."""
    for sign, problem in (("ConnectionRefused", "connection refused"), ("dns error", "no such host")):
        if sign in text:
            return problem
    return "timed out" if "TimedOut" in text else _first_line(text)


def _first_line(text: str) -> str:
    return text.partition("\n")[0].strip()
