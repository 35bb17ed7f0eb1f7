"""The command line without a process: what a call prints, and whether it left the lake alone.

The lake is reached directly, or through a service, which is a process.
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
    """Calls the command in a directory of its own, which is home as well, with a lake in it."""

    def __init__(
        self,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        served: Served | None = None,
    ) -> None:
        self.directory = directory
        self.lake = directory / "lake" if served is None else served.lake
        self.uri = f"file://{self.lake}" if served is None else served.url
        """What the lake is called."""
        self.is_served = served is not None
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        for name in ("LAKE", "USER", "HEAD_DIR", "TOKEN"):
            monkeypatch.delenv(f"ZED_{name}", raising=False)
            monkeypatch.delenv(f"SHOAL_{name}", raising=False)
        monkeypatch.setenv("HOME", str(directory))
        monkeypatch.setenv("SHOAL_LAKE", str(self.lake) if served is None else served.url)
        monkeypatch.setenv("SHOAL_USER", "me")
        monkeypatch.chdir(directory)

    def call(self, *argv: str, stdin: str = "") -> tuple[int, str, str]:
        """Exit status, output and errors of a call."""
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            status = main(argv)
        out, err = self._capsys.readouterr()
        return status, out, err

    def run(self, *argv: str, stdin: str = "") -> str:
        """The output of a call that has to succeed."""
        status, out, err = self.call(*argv, stdin=stdin)
        assert (status, err) == (0, ""), (argv, out, err)
        return out

    def load(self, text: str, *argv: str) -> str:
        """Load values; the id of the commit."""
        return self.run("load", *argv, "-", stdin=text).removesuffix(" committed\n")

    def fail(self, *argv: str, stdin: str = "") -> str:
        """The error of a call that has to fail with one line and to leave the lake as it is."""
        before = self.stored()
        status, out, err = self.call(*argv, stdin=stdin)
        assert (status, out) == (1, ""), (argv, out, err)
        assert err.endswith("\n"), (argv, err)
        assert self.stored() == before, argv
        return err[:-1].removeprefix("status code 400: ") if self.is_served else err[:-1]

    def objects(self) -> list[Listed]:
        """All objects of the lake, but for the notes of requests that a service keeps."""
        return sorted(listed for listed in LocalStore(self.lake).list() if not listed.key.startswith("requests/"))

    def stored(self) -> list[Any]:
        """All objects of the lake; through a service, where what nobody sees may stay behind, what anybody can see."""
        if not self.is_served:
            return self.objects()
        lake = open_local(str(self.lake))
        pools = [lake.pool(info.id) for info in lake.pools()]
        return [(pool.info(), pool.branches(), pool.tags()) for pool in pools]
