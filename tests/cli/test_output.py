"""Tables and metadata on a terminal: they fit it, count their rows, and go through a pager if they are long."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli.main import main
from shoal.testing.shell import Shell


class Screen:
    """Standard output is a terminal of a given size."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ours, self._theirs = pty.openpty()
        self._monkeypatch = monkeypatch

    def call(self, *argv: str, width: int = 80, lines: int = 24) -> tuple[int, str]:
        """Exit status of a command, and what it shows."""
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, width, 0, 0))
        with self._monkeypatch.context() as patch, open(self._theirs, "w", closefd=False) as stdout:
            patch.setattr(sys, "stdout", stdout)
            status = main(argv)
        os.write(self._theirs, b"\0")
        shown = b""
        while not shown.endswith(b"\0"):
            shown += os.read(self._ours, 65536)
        return status, shown.decode().rstrip("\0").replace("\r\n", "\n")

    def close(self) -> None:
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Screen(monkeypatch)
    yield terminal
    terminal.close()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "in.zson"
    path.write_text("".join(f'{{n:{n},text:"{"日本 words " * n}"}}\n' for n in range(1, 6)))
    return str(path)


def test_a_table_fits_the_terminal_and_counts_its_rows(screen: Screen, file: str) -> None:
    status, shown = screen.call("zq", "-f", "table", "n<3", file, width=16)
    assert (status, shown) == (0, "n text\n1 日本 words \n2 日本 words 日…\n(2 rows)\n")
    assert screen.call("zq", "-f", "table", "yield n | head 1", file) == (0, "value\n1\n(1 row)\n")
    assert screen.call("zq", "-f", "table", "n>9", file) == (0, "(0 rows)\n")


def test_columns_that_do_not_fit_are_named_in_the_last_line(screen: Screen, file: str) -> None:
    program = "yield {first:n,second:n,third:n,fourth:n} | head 1"
    assert screen.call("zq", "-f", "table", program, file, width=14) == (
        0,
        "first second …\n1     1      …\n(1 row; 2 columns not shown: see -wide)\n",
    )


def test_wide_shows_all(screen: Screen, file: str) -> None:
    shown = screen.call("zq", "-f", "table", "-wide", "n==5", file, width=16)[1]
    assert shown == f"n text\n5 {'日本 words ' * 5}\n(1 row)\n"


def test_other_output_neither_fits_nor_counts(screen: Screen, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert screen.call("zq", "-f", "csv", "n==5", file, width=16)[1] == f"n,text\n5,{'日本 words ' * 5}\n"
    assert main(["zq", "-f", "table", "n==5", file]) == 0
    assert capsys.readouterr().out == f"n text\n5 {'日本 words ' * 5}\n"


def test_rows_are_not_counted_after_an_error(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"a":1}\n{"a":\n')
    status, shown = screen.call("zq", "-i", "json", "-f", "table", "*", str(tmp_path / "bad.json"))
    assert (status, shown) == (1, "a\n1\n")


# ---- the pager

MARKING = f"{sys.executable} -c \"import sys; [print('>' + line, end='', flush=True) for line in sys.stdin]\""


def test_a_table_that_is_longer_than_the_screen_goes_through_the_pager(
    screen: Screen, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", MARKING)
    expected = "n\n1\n2\n3\n4\n5\n(5 rows)\n"
    assert screen.call("zq", "-f", "table", "cut n", file, lines=8)[1] == expected
    assert screen.call("zq", "-f", "table", "cut n", file, lines=7)[1] == "".join(
        f">{line}\n" for line in expected.splitlines()
    )


def test_the_default_pager_ends_when_the_reader_leaves_it(
    screen: Screen, file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "less"
    script.write_text('#!/bin/sh\necho "$@"\nhead -n 2\n')
    script.chmod(0o755)
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert screen.call("zq", "-f", "table", "cut n", file, lines=4) == (0, "-SRFX\nn\n1\n")


@pytest.mark.parametrize("command", ["cat", "", "no-such-pager -x"])
def test_without_a_pager_everything_is_shown(
    screen: Screen, file: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("PAGER", command)
    assert screen.call("zq", "-f", "table", "cut n", file, lines=3)[1] == "n\n1\n2\n3\n4\n5\n(5 rows)\n"


def test_a_reader_who_leaves_a_long_result_ends_the_query(
    screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "many.zson").write_text("{n:1}\n" * 20_000)
    monkeypatch.setenv("PAGER", "head -n 1")
    assert screen.call("zq", "-f", "table", "*", str(tmp_path / "many.zson")) == (0, "n\n")


def test_metadata_goes_through_the_pager(shell: Shell, screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", MARKING)
    shell.load("{ts:1}")
    assert screen.call("log", lines=24)[1].startswith("commit ")
    assert screen.call("log", lines=4)[1].startswith(">commit ")


def test_a_pipe_never_loads_a_pager_and_ascii_loads_no_widths(file: str) -> None:
    code = "import sys; from shoal.cli.main import main; assert main(sys.argv[1:]) == 0; print(*sys.modules)"
    argv = ["zq", "-f", "table", "cut n", file]
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, check=True, text=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "shoal.formats.table" in loaded
    assert [name for name in loaded if name == "shoal.cli.pager" or name.partition(".")[0] == "rich"] == []
