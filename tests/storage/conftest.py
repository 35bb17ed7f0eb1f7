"""What the tests of remote files and of cloud stores share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.testing.moto_s3 import running_moto


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """An S3 server of its own process, with a bucket called `bucket`."""
    with running_moto() as url:
        yield url
