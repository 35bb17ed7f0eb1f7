"""Lakes by where they are: `shoal.open("logs-lake")`, `shoal.open("http://localhost:9867")`.

What a lake of one kind needs is imported when one of that kind is opened.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shoal.api.lake import Lake
from shoal.client.address import is_service, service_url
from shoal.errors import Unsupported
from shoal.lazy import lazy
from shoal.storage import uris

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.client import remote_lake
    from shoal.local import lake as opening
else:
    remote_lake = lazy("shoal.client.remote_lake")
    opening = lazy("shoal.local.lake")


def open(  # noqa: A001 - it is `shoal.open`
    uri: str | os.PathLike[str],
    *,
    token: str | None = None,
    config: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
) -> Lake:
    """The lake at a path, at a file://, s3://, gs://, az:// or memory:// URI, or behind a service at http(s)://.

    A service may want a token: the one that is given, else SHOAL_TOKEN, else that of its URL in the credentials file of
    the directory `config` (default ~/.shoal).

    With `spark`, what Spark does for this lake runs on that session, classic or of Spark Connect. Its settings stay as
    they are. Otherwise the active session is used, or a new one at SHOAL_SPARK_MASTER.
    """
    location = os.fspath(uri)
    if is_service(location):
        if spark is not None:
            raise Unsupported(f"{location}: a service has a Spark of its own (open the lake at its path or URI)")
        return remote_lake.open_remote(location, token, config)
    return opening.open_local(location, spark)


def create(uri: str | os.PathLike[str]) -> Lake:
    """A new lake at a path or URI."""
    location = os.fspath(uri)
    if is_service(location):
        raise Unsupported(f"{location}: a service does not create lakes (create one at its path or URI, and serve it)")
    return opening.create_local(location)


def canonical_uri(uri: str) -> str:
    """The one way to write where a lake is, the same as its `uri`."""
    return service_url(uri) if is_service(uri) else uris.canonical_uri(uri)
