"""The real `zed` and `zq`, and a service of each kind. Without the binaries the tests of this folder are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.testing.peers import find_peer, zed_serving
from shoal.testing.services import serving


def _peer(name: str, folder: Path) -> Path:
    binary = find_peer(name, folder)
    if binary is None:
        pytest.skip(f"the real {name} is not here (../shared/peers, or a folder that ZED_PEERS names)")
    return binary


@pytest.fixture(scope="session")
def zq(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real `zq`."""
    return _peer("zq", tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="session")
def zed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real `zed`."""
    return _peer("zed", tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="module")
def zed_url(zed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Zed service."""
    with zed_serving(zed, tmp_path_factory.mktemp("zed")) as url:
        yield url


@pytest.fixture(scope="module")
def shoal_url(zed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Our service, where there is a real client for it."""
    folder = tmp_path_factory.mktemp("shoal")
    with serving(folder / "lake", folder, ["-log.level", "warn"]) as served:
        yield served.url
