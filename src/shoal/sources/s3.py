"""Inputs from S3 and stores with its API: read piece by piece; an object that changes meanwhile is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import PreconditionError

from shoal.errors import InvalidInput, ShoalError, StorageFailure
from shoal.sources.inputs import Ranged
from shoal.storage.buckets import Bucket, check_process, naming, open_bucket

if TYPE_CHECKING:  # the library has these for type checkers only
    from obstore import GetOptions
    from obstore.store import ClientConfig, RetryConfig

_IDLE = timedelta(seconds=30)
_REQUEST = timedelta(minutes=10)
_CLIENT: ClientConfig = {"connect_timeout": _IDLE, "read_timeout": _IDLE, "timeout": _REQUEST}
_RETRY: RetryConfig = {"max_retries": 3, "retry_timeout": _IDLE}
_MISSING = "file does not exist"


def open_url(url: str) -> Ranged:
    """Open the object that an s3 URL names."""
    store, key = _opened(url)
    with naming(url, _MISSING):
        meta = obstore.head(store, key)
    changed = StorageFailure(f"{url}: changed while it was read")
    return _ranged(url, store, key, meta["size"], meta["e_tag"] or "", lambda: changed)


def open_version(url: str, size: int, etag: str, changed: Callable[[], ShoalError]) -> Ranged:
    """Open one version of the object that an s3 URL names; a read of another one raises what `changed` gives."""
    store, key = _opened(url)
    return _ranged(url, store, key, size, etag, changed)


def head(url: str) -> tuple[int, int, str]:
    """The size of an object, a zero for the time of its last change, and what the bucket calls this version of it."""
    store, key = _opened(url)
    with naming(url, _MISSING):
        meta = obstore.head(store, key)
    return meta["size"], 0, meta["e_tag"] or ""


def below(url: str) -> Iterator[tuple[str, int, str]]:
    """What is below a prefix that ends with a slash: the rest of each name, its size and its version; in order."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    with naming(url, _MISSING):
        pages = obstore.list(_bucket(bucket, url), prefix or None)
        items = sorted((item["path"], item["size"], item["e_tag"] or "") for page in pages for item in page)
    yield from ((path.removeprefix(prefix), size, etag) for path, size, etag in items if path.startswith(prefix))


def _opened(url: str) -> tuple[Bucket, str]:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise InvalidInput(f"{url}: no object given (write s3://bucket/key)")
    return _bucket(bucket, url), key


def _bucket(bucket: str, url: str) -> Bucket:
    check_process(url)
    with naming(url, _MISSING):
        return open_bucket("s3", bucket, url, _CLIENT, _RETRY)


def _ranged(url: str, store: Bucket, key: str, whole: int, etag: str, changed: Callable[[], ShoalError]) -> Ranged:
    unchanged: GetOptions = {"if_match": etag} if etag else {}

    def fetch(start: int, size: int) -> bytes:
        with naming(url, _MISSING):
            options: GetOptions = {"range": (start, start + size), **unchanged}
            try:
                data = bytes(obstore.get(store, key, options=options).bytes())
            except PreconditionError:
                raise changed() from None
        if len(data) != size:
            raise StorageFailure(f"{url}: received {len(data)} bytes instead of {size}")
        return data

    return Ranged(fetch, whole, lambda: None)
