"""Commands of the lake on a terminal: questions before what cannot be undone, progress of what takes long."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli import progress
from shoal.cli.main import main
from shoal.testing.shell import Shell


class Terminal:
    """Standard input, and where errors go, is a terminal; output is not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ours, self._theirs = pty.openpty()
        self._monkeypatch = monkeypatch
        settings = termios.tcgetattr(self._theirs)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self._theirs, termios.TCSANOW, settings)

    def call(self, *argv: str, typed: str = "") -> tuple[int, str]:
        """Exit status of a call, and what it showed."""
        os.write(self._ours, typed.encode())
        with (
            self._monkeypatch.context() as patch,
            open(self._theirs, closefd=False) as stdin,
            open(self._theirs, "w", closefd=False) as stderr,
        ):
            patch.setattr(sys, "stdin", stdin)
            patch.setattr(sys, "stderr", stderr)
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
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal(monkeypatch)
    yield made
    made.close()


QUESTIONS = {
    ("drop", "logs"): 'delete pool "logs"',
    ("vacuum", "-grace", "0s"): 'vacuum data objects from "logs@main"',
    ("vacate", "main"): 'remove the history of pool "logs" before {second}',
    ("purge", "{first}"): 'purge {first} from all history of pool "logs"',
}


@pytest.mark.parametrize("argv, what", QUESTIONS.items(), ids=[argv[0] for argv in QUESTIONS])
def test_what_cannot_be_undone_is_done_after_a_yes_and_after_nothing_else(
    argv: tuple[str, ...], what: str, shell: Shell, terminal: Terminal, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    first = shell.load("{ts:1}")
    second = shell.run("delete", first).split(" ")[0]
    shell.run("branch", "-q", "b1")
    shell.load("{ts:2}", "-use", "@b1")
    shell.run("branch", "-q", "-d", "b1")
    places = {"first": first, "second": second}
    words = [word.format(**places) for word in argv]
    question = f"Are you sure you want to {what.format(**places)}? There is no going back... [y|n]\n"
    before = shell.stored()
    for answer in ("n\n", "\n", "yess\n", "\x04"):
        status, shown = terminal.call(*words, typed=answer)
        assert (status, shown) == (1, f"{question}operation canceled\n"), answer
        assert capsysbinary.readouterr().out == b""
        assert shell.stored() == before
    before = shell.objects()
    assert terminal.call(*words, typed="Y\n") == (0, question)
    assert capsysbinary.readouterr().out
    assert shell.objects() != before


def test_with_f_nothing_is_asked(shell: Shell, terminal: Terminal) -> None:
    assert terminal.call("drop", "-q", "-f", "logs") == (0, "")


def test_a_terminal_on_one_side_only_is_none_to_ask_on(
    shell: Shell, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert shell.call("drop", "logs")[0] == 1


def test_a_load_reports_what_it_added(shell: Shell, terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "a.zson").write_text("{ts:1}{ts:2,x:3}")
    status, shown = terminal.call("load", "a.zson")
    assert status == 0
    assert re.fullmatch(
        r"2 records of 2 shapes, [\d.]+ k?B in 1 object\nnew fields: ts \(int64\), x \(int64\)\n", shown
    )
    assert terminal.call("load", "-q", "a.zson") == (0, "")


def test_a_load_and_a_query_show_their_progress_and_erase_it(
    way: str, shell: Shell, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(progress, "_AFTER", 0.0)
    (tmp_path / "a.zson").write_text("".join(f"{{ts:{i}}}\n" for i in range(5000)))
    status, shown = terminal.call("load", "a.zson")
    assert status == 0
    assert re.match(r"\r[\d.]+ k?B of 48\.9 kB (read \(\d+%\), \d+ values|sent \(100%\)), 0 s", shown)
    assert "\r5,000 records of 1 shape, " in shown
    status, shown = terminal.call("query", "-z", "count()")
    assert status == 0
    assert way == "service" or re.match(r"\r[\d.]+ k?B read, \d+ values, \d+ s", shown)
    assert shown.endswith("\r") or way == "service"
    assert terminal.call("load", "-q", "a.zson") == (0, "")
    assert terminal.call("query", "-q", "-z", "count()") == (0, "")


def test_values_on_a_terminal_cannot_move_its_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    file = tmp_path / "in.json"
    file.write_text('{"a":"x\\u001b[2J\\u202ey\\u009bz"}')
    with monkeypatch.context() as patch, open(theirs, "w", closefd=False) as stdout:
        patch.setattr(sys, "stdout", stdout)
        for form in ("text", "table", "csv", "zson", "json", "lake"):
            assert main(["zq", "-f", form, "*", str(file)]) == 0
    os.write(theirs, b"\0")
    shown = b""
    while not shown.endswith(b"\0"):
        shown += os.read(ours, 65536)
    os.close(ours)
    os.close(theirs)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode().rstrip("\0").replace("\r\n", "\n"))
    assert text.count("y") == 6
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), text
    assert "x\\x1b[2J\\u202ey\\x9bz" in text
