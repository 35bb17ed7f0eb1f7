"""Settings of all tests. Generated tests print what replays them, and have no deadline: machines differ.

The quick tier generates the same examples every time, so that a change is judged by what it changed; the
long tier (`make test-long`) looks for new ones.

A service for those who want one is started once, in a process of its own; its lake is empty when a test begins.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import shoal
from shoal.api import pool_settings
from shoal.testing.moto_s3 import running_moto
from shoal.testing.services import Served, serving

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("quick", deadline=None, derandomize=True, max_examples=60, suppress_health_check=SLOW)
settings.register_profile(
    "long", deadline=None, derandomize=False, print_blob=True, max_examples=500, suppress_health_check=SLOW
)
settings.load_profile(os.environ.get("SHOAL_TESTS", "quick"))


USUAL_INLINE, pool_settings.DEFAULT_INLINE = pool_settings.DEFAULT_INLINE, 0
"""Pools that tests create have their data in objects, however little it is: that is what most tests are about. Commands
and services in processes of their own have the default of a user."""


@pytest.fixture(autouse=True)
def _data_within_commits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests with the mark `inline` create pools as a user does."""
    if request.node.get_closest_marker("inline") is not None:
        monkeypatch.setattr(pool_settings, "DEFAULT_INLINE", USUAL_INLINE)


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    """A thread that outlives its test goes on with what other tests patch: clocks, ids, settings.

    Threads of pools wait for work and stay, as do those of servers for as long as a client keeps its connection.
    """
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 10
    while left := _busy() - before:
        gc.collect()  # what a traceback holds, such as a query that was stopped
        time.sleep(0.01)
        assert time.monotonic() < until, f"{left} outlive their test"


def _busy() -> set[threading.Thread]:
    """Threads that may do something. Those of libraries are of classes of their own."""
    threads = (thread for thread in threading.enumerate() if type(thread) is threading.Thread)
    return {thread for thread in threads if not any(name in thread.name for name in _IDLE)}


_IDLE = ("ThreadPoolExecutor", "QueueManager", "QueueFeeder", "(process_request_thread)", "pass_on)", "work)")
"""The last two are of a proxy whose connections stay open, and of scheduled clients, which wait for ever."""


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
