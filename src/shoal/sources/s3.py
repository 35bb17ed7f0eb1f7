"""Inputs from S3 and stores with its API: read piece by piece; an object that changes meanwhile is an error."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import PreconditionError

from shoal.errors import InvalidInput, StorageFailure
from shoal.sources.inputs import Ranged
from shoal.storage.buckets import check_process, naming, open_bucket

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
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise InvalidInput(f"{url}: no object given (write s3://bucket/key)")
    check_process(url)
    with naming(url, _MISSING):
        store = open_bucket("s3", bucket, url, _CLIENT, _RETRY)
        meta = obstore.head(store, key)
    unchanged: GetOptions = {"if_match": meta["e_tag"]} if meta["e_tag"] else {}

    def fetch(start: int, size: int) -> bytes:
        with naming(url, _MISSING):
            options: GetOptions = {"range": (start, start + size), **unchanged}
            try:
                data = bytes(obstore.get(store, key, options=options).bytes())
            except PreconditionError:
                raise StorageFailure(f"{url}: changed while it was read") from None
        if len(data) != size:
            raise StorageFailure(f"{url}: received {len(data)} bytes instead of {size}")
        return data

    return Ranged(fetch, meta["size"], lambda: None)
