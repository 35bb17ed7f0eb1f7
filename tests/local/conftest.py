"""Lakes to ask: the same tests hold for one that is reached directly and for one behind a service."""

from __future__ import annotations

import pytest

import shoal
from shoal.api.lake import Lake

TWICE = (
    "test_changes",
    "test_expected_commits",
    "test_lake_api",
    "test_lake_transactions",
    "test_partitions",
    "test_transactions",
)
"""The tests that have to pass on either way to a lake, unless they are marked as direct."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".")[2]
    is_direct = metafunc.definition.get_closest_marker("direct") is not None
    if name in TWICE and "lake" in metafunc.fixturenames and not is_direct:
        metafunc.parametrize("way", ["direct", "service"], indirect=True)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    """How a lake is reached."""
    return getattr(request, "param", "direct")


@pytest.fixture
def lake(way: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Lake:
    """An empty lake."""
    if way == "service":
        return shoal.open(request.getfixturevalue("empty_service").url)
    return shoal.create(tmp_path_factory.mktemp("lake") / "lake")
