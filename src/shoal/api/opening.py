"""Lakes by where they are: `shoal.open("logs-lake")`."""

from __future__ import annotations

import os

from shoal.api.local import create_local, open_local
from shoal.api.protocol import Lake


def open(uri: str | os.PathLike[str]) -> Lake:  # noqa: A001 - it is `shoal.open`
    """The lake at a path, or at a file://, s3://, gs://, az:// or memory:// URI."""
    return open_local(os.fspath(uri))


def create(uri: str | os.PathLike[str]) -> Lake:
    """A new lake at a path or URI."""
    return create_local(os.fspath(uri))
