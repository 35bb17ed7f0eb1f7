"""A shell to call commands of the lake in, directly and through a service."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.testing.shell import Shell

TWICE = (
    "test_lake_verbs",
    "test_lake_verbs_errors",
    "test_lake_verbs_manage",
    "test_lake_verbs_terminal",
    "test_log",
    "test_load_options",
    "test_reports",
    "test_sql",
    "test_transaction",
)
"""The tests that have to pass on either way to a lake, unless they are marked as direct."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".")[2]
    is_direct = metafunc.definition.get_closest_marker("direct") is not None
    if name in TWICE and "shell" in metafunc.fixturenames and not is_direct:
        metafunc.parametrize("way", ["direct", "service"], indirect=True)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    """How a lake is reached."""
    return getattr(request, "param", "direct")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Shell:
    """A shell without a lake."""
    return Shell(tmp_path, monkeypatch, capsysbinary)


@pytest.fixture
def shell(
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    request: pytest.FixtureRequest,
) -> Shell:
    """A shell with a lake that has an empty pool called logs, which is in use."""
    made = Shell(
        tmp_path, monkeypatch, capsysbinary, request.getfixturevalue("empty_service") if way == "service" else None
    )
    if way == "direct":
        made.run("init", "-q")
    made.run("create", "-q", "-use", "logs")
    return made
