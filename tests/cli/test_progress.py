from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event

import pytest

from shoal.cli.progress import Progress, total_size
from shoal.engines.progress import watcher
from shoal.model import types as t
from shoal.model.values import Value


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.calls = 0

    def __call__(self) -> float:
        self.calls += 1
        return self.now


def numbers(clock: Clock, file: io.BytesIO, count: int, seconds: float = 0.0, size: int = 0) -> Iterator[Value]:
    """Values that take some time and some bytes each."""
    for i in range(count):
        clock.now += seconds
        file.read(size)
        yield Value(t.INT64, i)


def screen(text: str) -> str:
    """What a terminal shows in the end."""
    line, at = "", 0
    for c in text:
        line, at = (line, 0) if c == "\r" else (line[:at] + c + line[at + 1 :], at + 1)
    return line.rstrip()


def shown(text: str) -> list[str]:
    """All lines that were shown one after the other."""
    return [line.rstrip() for line in text.split("\r") if line.strip()]


def test_the_line_tells_how_far_it_has_come_and_is_gone_at_the_end() -> None:
    out, clock, file = io.StringIO(), Clock(), io.BytesIO(bytes(100_000_000))
    with Progress(out, 100_000_000, clock) as progress:
        values = progress.watch(file, numbers(clock, file, 1000, 0.01, 100_000))
        assert sum(1 for _ in islice(values, 300)) == 300
        assert re.fullmatch(r"\d\d\.\d MB of 100\.0 MB read \(\d\d%\), [12]\d\d values, [23] s", screen(out.getvalue()))
        assert sum(1 for _ in values) == 700
    assert screen(out.getvalue()) == ""
    assert re.fullmatch(r"9\d\.\d MB of 100\.0 MB read \(9\d%\), 9\d\d values, 10 s", shown(out.getvalue())[-1])


def test_nothing_is_shown_for_two_seconds_and_then_five_times_a_second_at_most() -> None:
    out, clock, file = io.StringIO(), Clock(), io.BytesIO()
    with Progress(out, clock=clock) as progress:
        for _ in islice(progress.watch(file, numbers(clock, file, 10**6, 0.001)), 1990):
            pass
        assert out.getvalue() == ""
        for _ in progress.watch(file, numbers(clock, file, 10_000, 0.001)):
            pass
    assert 40 <= len(shown(out.getvalue())) <= 51


def test_a_slow_input_is_shown_in_time() -> None:
    out, clock, file = io.StringIO(), Clock(), io.BytesIO()
    with Progress(out, clock=clock) as progress:
        for _ in progress.watch(file, numbers(clock, file, 10, 1.0)):
            pass
    assert shown(out.getvalue()) == [f"0 B read, {i} values, {i + 1} s" for i in range(1, 10)]


def test_no_value_is_held_back_or_lost() -> None:
    clock, file, taken = Clock(), io.BytesIO(), []

    def source() -> Iterator[Value]:
        for i in range(5000):
            taken.append(i)
            yield Value(t.INT64, i)
        raise ValueError("broken")

    got = []
    with pytest.raises(ValueError, match="broken"):
        for value in Progress(io.StringIO(), clock=clock).watch(file, source()):
            got.append(value.data)
            assert len(got) == len(taken)
    assert got == taken == list(range(5000))


def test_the_clock_is_asked_once_a_block() -> None:
    clock, file = Clock(), io.BytesIO()
    for _ in Progress(io.StringIO(), clock=clock).watch(file, numbers(clock, file, 100_000)):
        pass
    assert clock.calls < 120


def test_several_files_at_a_time_add_up() -> None:
    out, clock = io.StringIO(), Clock()
    one, two = io.BytesIO(bytes(1000)), io.BytesIO(bytes(1000))
    progress = Progress(out, 2000, clock)
    for _ in zip(
        progress.watch(one, numbers(clock, one, 10, 1.0, 100)),
        progress.watch(two, numbers(clock, two, 10, 1.0, 100)),
        strict=False,
    ):
        pass
    assert shown(out.getvalue())[-1].startswith("2.0 kB of 2.0 kB read (100%)")


def test_more_than_was_foreseen_is_no_percentage() -> None:
    out, clock, file = io.StringIO(), Clock(), io.BytesIO(bytes(10_000))
    for _ in Progress(out, 3000, clock).watch(file, numbers(clock, file, 10, 1.0, 1000)):
        pass
    assert shown(out.getvalue())[-1] == "10.0 kB read, 9 values, 10 s"


def test_the_line_makes_way_for_what_else_is_written() -> None:
    out, clock, file = io.StringIO(), Clock(), io.BytesIO()
    progress = Progress(out, clock=clock)
    warn = progress.above(lambda text: print(text, file=out))
    for _ in progress.watch(file, numbers(clock, file, 3, 2.0)):
        pass
    assert screen(out.getvalue()) == "0 B read, 2 values, 6 s"
    warn("careful")
    assert screen(out.getvalue()) == "careful"


def test_without_a_stream_the_values_are_passed_as_they_are() -> None:
    clock, file = Clock(), io.BytesIO()
    values = numbers(clock, file, 3)
    with Progress(None, clock=clock) as progress:
        assert progress.watch(file, values) is values


def test_the_size_of_files_is_known_and_that_of_others_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(5))
    (tmp_path / "b").write_bytes(bytes(7))
    assert total_size([str(tmp_path / "a"), str(tmp_path / "b")]) == 12
    assert total_size([str(tmp_path / "a"), "-"]) == total_size(["http://host/x"]) == total_size([]) == 0


# ---- the command on a terminal


COUNT = 50_000
IMPATIENT = """
import sys
from shoal.__main__ import run
from shoal.cli import progress
progress._AFTER = progress._EVERY = 0.01
sys.exit(run())
"""
"""The command, with a progress line that comes soon and changes often."""
SIZE = r"[\d.]+ [kM]?B"


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("progress") / "big.json"
    path.write_text("".join(f'{{"n":{i},"s":"{"x" * 20}","a":[1,2,3]}}\n' for i in range(COUNT)))
    return path


def on_terminal(*argv: str, stdout: int | None = None) -> str:
    """What the command writes to a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", IMPATIENT, "zq", *argv]
    with subprocess.Popen(command, stderr=theirs, stdout=theirs if stdout is None else stdout) as process:
        os.close(theirs)
        out = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
    assert process.returncode == 0, out
    return out.decode()


def lines_of_reading(out: str) -> list[str]:
    """The lines that say how much was read; before that there are some that say the time."""
    return [line for line in shown(out) if not re.fullmatch(r"\d+ s", line)]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def test_a_long_query_shows_its_progress_on_a_terminal_and_erases_it(big: Path) -> None:
    out = on_terminal("-z", "tail 1", str(big), str(big), stdout=subprocess.DEVNULL)
    lines = lines_of_reading(out)
    total = f"{2 * big.stat().st_size / 1e6:.1f} MB"
    assert lines
    for line in lines:
        assert re.fullmatch(rf"{SIZE} of {total} read \(\d+%\), [\d,]+ values, \d+ s", line)
    assert screen(out) == ""


@pytest.mark.parametrize("argv", [("-q", "-z", "count()"), ("-o", "/dev/null", "-q", "count()")])
def test_quiet_shows_no_progress(big: Path, argv: tuple[str, ...]) -> None:
    assert on_terminal(*argv, str(big), stdout=subprocess.DEVNULL) == ""


def test_where_results_go_to_the_terminal_the_first_of_them_ends_the_line(big: Path) -> None:
    out = on_terminal("-z", "sort n | tail 1", str(big))
    assert 0 < out.rfind("MB of") < out.find(f":{COUNT - 1},")
    out = on_terminal("-z", "where n % 1000 == 0", str(big))
    assert out.rfind("MB of") < out.find(":0,") < out.find(":1000,")


def test_a_source_in_the_query_and_an_output_file_show_progress_too(big: Path) -> None:
    query = f"fork (=> file {big} => file {big}) | sort n | tail 1"
    lines = lines_of_reading(on_terminal("-o", os.devnull, query))
    assert lines
    for line in lines:
        assert re.fullmatch(rf"{SIZE} read, [\d,]+ values, \d+ s", line)


class Screen(io.StringIO):
    """Tells when a text is written."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.has_come = Event()

    def write(self, text: str) -> int:
        if self._text in text:
            self.has_come.set()
        return super().write(text)


def test_engines_that_let_no_values_pass_are_shown_by_the_clock() -> None:
    out = Screen("3 of 8 tasks, 9 s")
    clock = iter([0.0, *[9.0] * 1000])
    with Progress(out, clock=lambda: next(clock)):
        show = watcher()
        assert show is not None
        show(3, 8)
        assert out.has_come.wait(60)
    assert "3 of 8 tasks, 9 s" in out.getvalue()
    assert out.getvalue().endswith("\r")
    assert watcher() is None
