"""`shoal changes`: formats, warnings, and how following a branch begins and ends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from shoal.testing.shell import Shell

_NAMES = ["change", "before", "after", "commit", "author", "ts"]


@pytest.fixture
def orders(shell: Shell) -> Shell:
    shell.load("{ts:1}")
    shell.run("tag", "-q", "v1")
    shell.load('{ts:2,v:"x"}')
    return shell


def changes(shell: Shell, *argv: str) -> list[tuple[str, object]]:
    rows = [json.loads(line) for line in shell.run("changes", "-j", *argv).splitlines()]
    return [(row["change"], row["after"]) for row in rows]


def test_changes_are_listed_from_and_to_commits(orders: Shell) -> None:
    assert changes(orders) == [("insert", {"ts": 1}), ("insert", {"ts": 2, "v": "x"})]
    assert changes(orders, "-since", "v1") == changes(orders)[1:]
    assert changes(orders, "-until", "v1") == changes(orders)[:1]
    assert orders.run("changes", "-since", "main", "-z") == ""


@pytest.mark.parametrize("form", ["csv", "tsv", "table", "arrows", "parquet", "zng", "zjson"])
def test_changes_are_written_in_every_format(orders: Shell, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"changes.{form}"
    orders.run("changes", "-f", form, "-o", str(path))
    assert path.stat().st_size > 0
    if form in ("arrows", "parquet", "zng", "zjson"):
        assert orders.run("zq", "-z", "yield after.ts", str(path)) == "1\n2\n"


@pytest.mark.parametrize("form", ["csv", "tsv", "arrows", "arrow", "parquet"])
def test_formats_with_columns_have_them_without_changes(orders: Shell, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"changes.{form}"
    orders.run("changes", "-since", "main", "-f", form, "-o", str(path))
    orders.run("zq", "-z", "-i", form, "yield this", str(path))
    if form in ("csv", "tsv"):
        assert path.read_text().splitlines() == [("," if form == "csv" else "\t").join(_NAMES)]
    elif form == "parquet":
        assert pq.read_schema(path).names == _NAMES
    else:
        open_file = ipc.open_stream if form == "arrows" else ipc.open_file
        assert open_file(path.read_bytes()).schema.names == _NAMES


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_goes_on_until_a_signal_ends_it(orders: Shell, number: int, tmp_path: Path) -> None:
    before = signal.getsignal(number)

    def act() -> None:
        time.sleep(0.5)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=act)
    thread.start()
    out = orders.run("changes", "-follow", "-j", "-since", "v1")
    thread.join()
    assert [json.loads(line)["after"] for line in out.splitlines()] == [{"ts": 2, "v": "x"}]
    assert signal.getsignal(number) is before


def test_flags_that_do_not_go_together_are_refused(orders: Shell) -> None:
    assert "-exit-after goes with -follow alone" in orders.misuse("changes", "-exit-after", "1s")
    assert "-until does not go with -follow" in orders.misuse("changes", "-follow", "-until", "v1")
    assert "no arguments allowed" in orders.misuse("changes", "logs")
