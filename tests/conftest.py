"""Settings of all tests. Generated tests print what replays them, and have no deadline: machines differ.

The quick tier generates the same examples every time, so that a change is judged by what it changed; the
long tier (`make test-long`) looks for new ones.

A service for those who want one is started once, in a process of its own; its lake is empty when a test begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import shoal
from shoal.testing.moto_s3 import running_moto
from shoal.testing.services import Served, serving

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("quick", deadline=None, derandomize=True, max_examples=60, suppress_health_check=SLOW)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=500, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("SHOAL_TESTS", "quick"))


@pytest.fixture(scope="session")
def common_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that lasts as long as the tests of this process."""
    folder = tmp_path_factory.mktemp("service")
    with serving(folder / "lake", folder, ["-log.level", "warn"]) as found:
        yield found


@pytest.fixture
def empty_service(common_service: Served) -> Served:
    """The service, without any pool of the test before."""
    lake = shoal.open(common_service.url)
    for pool in lake.pools():
        lake.drop(pool.id)
    return common_service


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """An S3 server in a process of its own, with a bucket called `bucket`."""
    with running_moto() as url:
        yield url
