"""Inputs that grow are loaded once, whoever is stopped, killed or started twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest

import shoal
from shoal.api.branch import Branch
from shoal.api.lake import Lake
from shoal.connect.following import GrowingFile, Input, Limits, Pipe, batches, follow
from shoal.errors import Conflict, InvalidInput, NotFound
from shoal.ids import derived
from shoal.testing.scripts import call_shoal
from shoal.testing.tiers import IS_LONG

KILLS, LINES = (60, 20_000) if IS_LONG else (6, 2_000)
QUICK = Limits(seconds=0.01)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return shoal.create(tmp_path / "lake")


@pytest.fixture
def branch(lake: Lake) -> Branch:
    return lake.create("logs", key="n").branch("main")


def after(reads: int) -> Callable[[], bool]:
    """Is over when it was asked some times."""
    left = iter(range(reads))
    return lambda: next(left, None) is None


def load(branch: Branch, source: Input, reads: int = 3, limits: Limits = QUICK, **options: str | None) -> int:
    """Follow an input for a while; how many commits that makes."""
    return len(list(follow(branch, source, limits, after(reads), **options)))  # type: ignore[arg-type]


def numbers(lake: Lake) -> list[int]:
    return list(lake.query("from logs | yield n").to_list())


def write(path: Path, values: range) -> Path:
    with path.open("a") as file:
        file.writelines(f'{{"n":{n}}}\n' for n in values)
    return path


def test_a_file_is_followed_from_where_the_last_commit_ends(lake: Lake, branch: Branch, tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", range(3))
    assert load(branch, GrowingFile(str(path)), ident="a") == 1
    assert load(branch, GrowingFile(str(path)), ident="a") == 0
    with write(path, range(3, 5)).open("a") as file:
        file.write('{"n":5')  # a line that is not whole yet
    assert load(branch, GrowingFile(str(path)), ident="a") == 1
    assert numbers(lake) == [0, 1, 2, 3, 4]
    with path.open("a") as file:
        file.write("}\n")
    assert load(branch, GrowingFile(str(path)), ident="a") == 1
    assert numbers(lake) == [0, 1, 2, 3, 4, 5]


def test_batches_end_by_lines_bytes_and_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", range(10))

    def sizes(limits: Limits, reads: int) -> list[int]:
        with closing(GrowingFile(str(path))) as source:
            return [batch.data.count(b"\n") for batch in batches(source, limits, after(reads), 0)]

    assert sizes(Limits(60, 10, 10**6), 1) == [10]
    assert sizes(Limits(60, 10**6, 10), 1) == [10]
    assert sizes(Limits(60, 10**6, 10**6), 3) == [10]  # the last batch, when it is over
    assert sizes(Limits(0.001, 10**6, 10**6), 3) == [10]


def test_the_last_line_of_a_pipe_needs_no_end(lake: Lake, branch: Branch) -> None:
    reader, writer = os.pipe()
    os.write(writer, b'{"n":1}\n{"n":2}')
    os.close(writer)
    assert load(branch, Pipe(reader), reads=100) == 1
    assert numbers(lake) == [1, 2]


def test_a_pipe_that_begins_anew_is_loaded_once(lake: Lake, branch: Branch) -> None:
    for count in (2, 5, 5):
        reader, writer = os.pipe()
        os.write(writer, b"".join(b'{"n":%d}\n' % n for n in range(count)))
        os.close(writer)
        load(branch, Pipe(reader), reads=100, ident="p")
        os.close(reader)
    assert numbers(lake) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_tables_have_their_header_in_each_batch(lake: Lake, branch: Branch, tmp_path: Path, separator: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"n{separator}text\n")
    name = "csv" if separator == "," else "tsv"
    assert load(branch, GrowingFile(str(path)), ident="t", format_name=name) == 0
    for n in range(3):
        with path.open("a") as file:
            file.write(f'{n}{separator}"two\n')
        assert load(branch, GrowingFile(str(path)), ident="t", format_name=name) == 0  # in the middle of a value
        with path.open("a") as file:
            file.write('lines"\n')
        assert load(branch, GrowingFile(str(path)), ident="t", format_name=name) == 1
    assert lake.query("from logs").to_list() == [{"n": n, "text": "two\nlines"} for n in range(3)]


def test_formats_are_detected_by_the_first_line(lake: Lake, branch: Branch, tmp_path: Path) -> None:
    for name, text in (("a", '{"n":1}\n'), ("b", "{n:2,ip:10.0.0.1}\n"), ("c", "n,s\n3,x\n")):
        (tmp_path / name).write_text(text)
        assert load(branch, GrowingFile(str(tmp_path / name))) == 1
    assert lake.query("from logs | yield typeof(n)").to_zson().splitlines() == ["<int64>"] * 3
    (tmp_path / "d").write_bytes(b"PAR1 and more\n")
    with pytest.raises(InvalidInput):
        load(branch, GrowingFile(str(tmp_path / "d")))
    with pytest.raises(InvalidInput, match=r"^format parquet cannot be followed \(one of: ndjson, json, zson"):
        load(branch, GrowingFile(str(tmp_path / "a")), format_name="parquet")


def test_another_file_is_not_taken_for_the_one_that_was_followed(branch: Branch, tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", range(5))
    load(branch, GrowingFile(str(path)), ident="a")
    other = write(tmp_path / "b.ndjson", range(7, 20))
    with pytest.raises(InvalidInput, match=r"is not the input that was followed as a \(follow a new input with"):
        load(branch, GrowingFile(str(other)), ident="a")
    path.write_text('{"n":0}\n')
    with pytest.raises(InvalidInput, match="shorter than what was loaded of it, 40 bytes"):
        load(branch, GrowingFile(str(path)), ident="a")
    with pytest.raises(NotFound, match="nowhere: file does not exist"):
        GrowingFile("nowhere")


def test_a_file_that_is_replaced_ends_it(lake: Lake, branch: Branch, tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", range(3))
    source = GrowingFile(str(path))
    commits = follow(branch, source, QUICK, lambda: False, ident="a")
    next(commits)
    path.rename(tmp_path / "a.ndjson.1")
    write(path, range(9))
    with pytest.raises(InvalidInput, match="was replaced or truncated; all of it up to then is loaded"):
        next(commits)
    assert numbers(lake) == [0, 1, 2]


def test_two_that_follow_with_one_id_load_nothing_twice(lake: Lake, branch: Branch, tmp_path: Path) -> None:
    path, over = write(tmp_path / "a.ndjson", range(3)), Event()
    conflicts: list[str] = []

    def run() -> None:
        try:
            for _ in follow(branch, GrowingFile(str(path)), QUICK, over.is_set, ident="a"):
                pass
        except Conflict as e:
            conflicts.append(str(e))

    threads = [Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(3, 300, 3):
        write(path, range(n, n + 3))
        time.sleep(0.005)
    time.sleep(0.5)
    over.set()
    for thread in threads:
        thread.join()
    assert set(conflicts) <= {"another process follows a (end it, or use another -id)"}
    assert len(conflicts) < 3
    assert numbers(lake) == list(range(300))


def test_the_id_of_an_operation_follows_from_its_parts() -> None:
    assert derived("a", "bc") == derived("a", "bc") != derived("ab", "c")


# ---- the command


def start(lake: Lake, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "shoal", "load", "-lake", lake.uri, "-use", "logs", "-follow", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_kills_lose_and_double_nothing(lake: Lake, branch: Branch, tmp_path: Path) -> None:
    path, dice = tmp_path / "a.ndjson", random.Random(KILLS)

    def grow() -> None:
        for n in range(0, LINES, 20):
            write(path, range(n, n + 20))
            time.sleep(0.02)

    path.touch()
    writer = Thread(target=grow)
    writer.start()
    for _ in range(KILLS):
        process = start(lake, "-id", "a", "-every", "20ms", str(path))
        time.sleep(0.3 + dice.random())
        process.kill()
        process.communicate()
    writer.join()
    process = start(lake, "-id", "a", "-every", "20ms", "-exit-after", "1s", str(path))
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert numbers(lake) == list(range(LINES))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_commits_what_is_there(lake: Lake, branch: Branch, tmp_path: Path, number: signal.Signals) -> None:
    path = write(tmp_path / "a.ndjson", range(3))
    process = start(lake, "-id", "a", "-every", "1h", str(path))
    time.sleep(2)
    assert numbers(lake) == []
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert out.decode().endswith(" committed\n")
    assert numbers(lake) == [0, 1, 2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-follow", "a", "b"], "load: -follow takes one file, or - for stdin"),
        (["-follow", "http://127.0.0.1/x"], "load: -follow takes one file, or - for stdin"),
        (["-follow", "-id", "x", "-meta", "1", "a"], "load: -meta does not go with -follow and -id"),
        (["-follow", "-every", "0s", "a"], "load: -every, -lines and -bytes must be positive"),
        (["-lines", "5", "a"], "-lines goes with -follow alone"),
    ],
)
def test_what_is_wrong_is_one_line(lake: Lake, words: list[str], message: str) -> None:
    lake.create("logs", key="n")
    status, _, err = call_shoal(["load", "-lake", lake.uri, "-use", "logs", *words])
    assert (status, message in err, err.count("\n")) == (2, True, 1), err


def test_reports_are_printed_for_each_commit(lake: Lake, branch: Branch, tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", range(3))
    words = ["load", "-lake", lake.uri, "-use", "logs", "-follow", "-j", "-exit-after", "100ms", "-every", "10ms"]
    status, out, err = call_shoal([*words, str(path)])
    assert (status, err) == (0, "")
    assert json.loads(out)["records"] == 3
