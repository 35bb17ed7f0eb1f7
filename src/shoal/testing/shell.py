"""Runs commands in this process, and checks what they print and whether they changed the lake.

The lake is in a directory, or behind a service, which is another process.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.main import main
from shoal.local.lake import open_local
from shoal.storage.local import LocalStore
from shoal.storage.store import Listed
from shoal.testing.services import Served


class Shell:
    """Runs `shoal` in its own directory, which is also the home directory and contains the lake."""

    def __init__(
        self,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        captured: pytest.CaptureFixture[bytes],
        served: Served | None = None,
    ) -> None:
        self.directory = directory
        self.lake = directory / "lake" if served is None else served.lake
        self.uri = f"file://{self.lake}" if served is None else served.url
        """The URI of the lake."""
        self.is_served = served is not None
        self._monkeypatch = monkeypatch
        self._captured = captured
        for name in ("LAKE", "USER", "HEAD_DIR", "TOKEN"):
            monkeypatch.delenv(f"ZED_{name}", raising=False)
            monkeypatch.delenv(f"SHOAL_{name}", raising=False)
        monkeypatch.setenv("HOME", str(directory))
        monkeypatch.setenv("SHOAL_LAKE", str(self.lake) if served is None else served.url)
        monkeypatch.setenv("SHOAL_USER", "me")
        monkeypatch.chdir(directory)

    def call(self, *argv: str, stdin: str = "") -> tuple[int, str, str]:
        """Run a command; returns its exit status, output and errors."""
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            status = main(argv)
        out, err = self._captured.readouterr()
        return status, out.decode(errors="backslashreplace"), err.decode()

    def run(self, *argv: str, stdin: str = "") -> str:
        """Run a command that must succeed; returns its output."""
        status, out, err = self.call(*argv, stdin=stdin)
        assert (status, err) == (0, ""), (argv, out, err)
        return out

    def load(self, text: str, *argv: str) -> str:
        """Load values; returns the commit id."""
        return self.run("load", *argv, "-", stdin=text).removesuffix(" committed\n")

    def fail(self, *argv: str, stdin: str = "", status: int = 1) -> str:
        """Run a command that must fail with one line and leave the lake unchanged; returns the line."""
        before = self.stored()
        ended, out, err = self.call(*argv, stdin=stdin)
        assert (ended, out) == (status, ""), (argv, ended, out, err)
        assert err.endswith("\n"), (argv, err)
        assert self.stored() == before, argv
        return err[:-1].removeprefix("status code 400: ") if self.is_served else err[:-1]

    def misuse(self, *argv: str, stdin: str = "") -> str:
        """Run a command that is not written as its help says; returns the line that it fails with."""
        return self.fail(*argv, stdin=stdin, status=2)

    def objects(self) -> list[Listed]:
        """All objects of the lake, except for the request records of a service."""
        return sorted(listed for listed in LocalStore(self.lake).list() if not listed.key.startswith("requests/"))

    def stored(self) -> list[Any]:
        """All objects of the lake but the names of columns, which a load that fails may have registered.

        Behind a service it is only the visible state, because unreachable objects may stay.
        """
        if not self.is_served:
            return [listed for listed in self.objects() if "/columns/" not in listed.key]
        lake = open_local(str(self.lake))
        pools = [lake.pool(info.id) for info in lake.pools()]
        return [(pool.info(), pool.branches(), pool.tags()) for pool in pools]
