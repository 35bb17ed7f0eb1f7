"""The command line without a process: what a call prints, and whether it left the lake alone."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from shoal.cli.main import main
from shoal.storage.local import LocalStore
from shoal.storage.store import Listed


class Shell:
    """Calls the command in a directory of its own, which is home as well, with a lake in it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.lake = directory / "lake"
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        for name in ("LAKE", "USER", "HEAD_DIR"):
            monkeypatch.delenv(f"ZED_{name}", raising=False)
            monkeypatch.delenv(f"SHOAL_{name}", raising=False)
        monkeypatch.setenv("HOME", str(directory))
        monkeypatch.setenv("SHOAL_LAKE", str(self.lake))
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
        return err[:-1]

    def stored(self) -> list[Listed]:
        """All objects of the lake."""
        return sorted(LocalStore(self.lake).list())
