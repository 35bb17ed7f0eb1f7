"""A shell to call commands of the lake in."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.testing.shell import Shell


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A shell without a lake."""
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture
def shell(bare: Shell) -> Shell:
    """A shell with a lake that has an empty pool called logs, which is in use."""
    bare.run("init", "-q")
    bare.run("create", "-q", "-use", "logs")
    return bare
