"""`shoal transaction` between commands: what is kept, for whom, and until when."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from shoal.cli import saved_transactions
from shoal.cli.saved_transactions import Saved
from shoal.local.lake import open_local
from shoal.testing.shell import Shell


@pytest.fixture(autouse=True)
def _items(shell: Shell) -> None:
    shell.run("create", "-q", "-orderby", "id", "-primary", "id", "items")
    shell.load("{id:1,n:1}", "-q", "-use", "items")


def begin(shell: Shell, *argv: str) -> str:
    return shell.run("transaction", "begin", *argv).strip()


def files(shell: Shell) -> list[Path]:
    return sorted((shell.directory / ".shoal_transactions").iterdir())


def test_it_goes_on_from_command_to_command(shell: Shell) -> None:
    ident = begin(shell, "logs", "items")
    shell.run("transaction", "load", "-q", "logs", "-", stdin="{ts:1}")
    shell.run("transaction", "upsert", "-q", "items", "-", stdin="{id:1,n:2}")
    assert shell.run("transaction", "query", "-z", "from items") == "{id:1,n:2}\n"
    assert shell.run("query", "-z", "from items") == "{id:1,n:1}\n"
    lines = shell.run("transaction", "commit", "-message", "both").splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["committed to logs@main", "committed to items@main"]
    assert shell.run("query", "-z", "from items") == "{id:1,n:2}\n"
    assert shell.run("query", "-z", f"from logs@{ident}") == "{ts:1}\n"
    assert files(shell) == []


def test_commands_read_other_pools_as_the_first_one_read_them(shell: Shell) -> None:
    begin(shell, "logs")
    assert shell.run("transaction", "query", "-z", "from items") == "{id:1,n:1}\n"
    shell.load("{id:2,n:2}", "-q", "-use", "items")
    assert shell.run("transaction", "query", "-z", "from items") == "{id:1,n:1}\n"


@pytest.mark.parametrize("places", [["logs", "items"], ["logs"]])
def test_a_commit_that_was_interrupted_at_its_end_is_found_by_the_next_one(shell: Shell, places: list[str]) -> None:
    begin(shell, "logs", "items")
    for place in places:
        shell.run("transaction", "load", "-q", place, "-", stdin="{ts:1,id:2}")
    (path,) = files(shell)
    kept = path.read_bytes()
    first = shell.run("transaction", "commit")
    path.write_bytes(kept)
    assert sorted(shell.run("transaction", "commit").splitlines()) == sorted(first.splitlines())
    assert shell.run("query", "-z", "from logs | count()") == "1(uint64)\n"
    assert files(shell) == []


def test_its_file_is_of_its_user_alone_and_is_found_by_the_lake(shell: Shell) -> None:
    ident = begin(shell, "logs")
    (path,) = files(shell)
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == (f"{ident}.json", 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert json.loads(path.read_text())["lake"] == shell.uri
    other = str(shell.directory / "other")
    shell.run("init", "-q", other)
    assert "no transaction is open on this lake" in shell.fail("transaction", "query", "-lake", other, "from :pools")
    assert "no such transaction open" in shell.fail("transaction", "commit", "-lake", other, "-t", ident)
    assert shell.run("transaction", "ls", "-lake", other) == ""


def test_a_file_that_cannot_be_read_is_named(shell: Shell) -> None:
    ident = begin(shell, "logs")
    (path,) = files(shell)
    path.write_text("{}")
    error = f"{path}: not a saved transaction (remove this file)"
    assert shell.fail("transaction", "abort", "-t", ident) == error
    assert shell.call("transaction", "ls") == (0, "", error + "\n")
    other = begin(shell, "logs")
    shell.run("transaction", "load", "-q", "-t", other, "logs", "-", stdin="{ts:1}")
    status, out, err = shell.call("transaction", "commit")
    assert (status, err) == (0, error + "\n"), "it stops no other transaction"
    assert out.endswith("committed to logs@main\n")


def test_a_state_that_cannot_be_resumed_is_named_and_can_be_given_up(shell: Shell) -> None:
    ident = begin(shell, "logs")
    (path,) = files(shell)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "saved": "{}"}))
    way_out = f"to give it up: shoal transaction abort -t {ident}"
    for argv in (("commit",), ("load", "logs", "-")):
        error = shell.fail("transaction", *argv)
        assert error.startswith(f"{path}: this is not a saved transaction")
        assert error.endswith(way_out)
    assert "transaction aborted" in shell.run("transaction", "abort")
    assert files(shell) == []


def test_expired_ones_are_forgotten(shell: Shell) -> None:
    first = begin(shell, "-expires", "1ms", "logs")
    time.sleep(0.01)
    assert "has expired" in shell.fail("transaction", "load", "-t", first, "logs", "-", stdin="{ts:1}")
    assert "no transaction is open" in shell.fail("transaction", "commit")
    second = begin(shell, "logs")
    assert [path.name for path in files(shell)] == [f"{second}.json"]
    shell.run("transaction", "abort", "-q")
    third = begin(shell, "-expires", "1ms", "logs")
    time.sleep(0.01)
    assert shell.run("transaction", "abort", "-t", third) == f"transaction aborted: {third}\n"


def test_a_conflict_changes_nothing_and_says_how_to_give_up(shell: Shell) -> None:
    ident = begin(shell, "logs", "items")
    shell.run("transaction", "load", "-q", "logs", "-", stdin="{ts:1}")
    shell.run("transaction", "upsert", "-q", "items", "-", stdin="{id:1,n:2}")
    shell.run("upsert", "-q", "-use", "items", "-", stdin="{id:1,n:3}")
    status, out, err = shell.call("transaction", "commit")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.endswith(f"to give it up: shoal transaction abort -t {ident}\n")
    assert shell.run("query", "-z", "from logs") == ""
    assert shell.run("query", "-z", "from items") == "{id:1,n:3}\n"
    assert len(files(shell)) == 1, "what was staged can be looked at"
    assert shell.run("transaction", "query", "-z", "from items") == "{id:1,n:2}\n"
    shell.run("transaction", "abort", "-q")
    assert files(shell) == []


def test_what_a_query_loads_is_staged(shell: Shell) -> None:
    begin(shell, "logs", "items")
    shell.run("transaction", "load", "-q", "logs", "-", stdin="{ts:1,id:7}")
    assert shell.run("transaction", "query", "-z", "from logs | load items") == ""
    assert shell.run("transaction", "query", "-z", "from items | id==7") == "{ts:1,id:7}\n"
    assert shell.run("query", "-z", "from items | id==7") == ""
    shell.run("transaction", "abort", "-q")
    assert shell.run("query", "-z", "from items | id==7") == ""


def test_an_empty_one_stays_open_and_says_how_to_give_it_up(shell: Shell) -> None:
    ident = begin(shell, "logs", "items")
    for places in ("logs items", "logs"):
        assert shell.fail("transaction", "commit", "-t", ident) == (
            "empty transaction: nothing is staged in it yet (it stays open); "
            f"to give it up: shoal transaction abort -t {ident}"
        ), places


def test_a_deletion_tells_how_many_records_it_deletes(shell: Shell) -> None:
    begin(shell, "logs", "items")
    shell.run("transaction", "load", "-q", "logs", "-", stdin="{ts:1} {ts:2} {ts:3}")
    assert shell.run("transaction", "delete", "logs", "-where", "ts<3") == "staged on logs@main\n2 records deleted\n"
    assert (
        shell.run("transaction", "delete", "items", "-keys", "-", stdin="1")
        == "staged on items@main\n1 record deleted\n"
    )
    assert shell.run("transaction", "delete", "-q", "logs", "-where", "ts==3") == ""


def test_a_misspelt_command_is_suggested(shell: Shell) -> None:
    assert shell.misuse("transaction", "beginn") == "shoal transaction: unknown command 'beginn' (did you mean begin?)"


@pytest.mark.parametrize("length", ["8d", "-1h", "0s"])
def test_a_time_to_expire_is_a_duration_up_to_a_week(shell: Shell, length: str) -> None:
    error = shell.fail("transaction", "begin", f"-expires={length}", "logs")
    assert error == f"expires: a transaction may be open for more than 0s and up to 7d, not {length}"


def test_a_step_that_fails_stages_nothing(shell: Shell) -> None:
    begin(shell, "logs", "items")
    assert "-where is for" in shell.misuse("transaction", "load", "-where", "x", "logs", "-")
    status, _, _ = shell.call("transaction", "load", "logs", "-", stdin="{ts:")
    assert status == 1
    assert "primary key" in shell.fail("transaction", "load", "items", "-", stdin="{n:1}")
    shell.run("transaction", "load", "-q", "logs", "-", stdin="{ts:1}")
    assert shell.run("transaction", "query", "-z", "from logs") == "{ts:1}\n"


def test_a_branch_of_the_pool_in_use_is_named_by_its_branch(shell: Shell) -> None:
    shell.run("branch", "-q", "-use", "logs", "dev")
    begin(shell, "@dev", "items")
    shell.run("transaction", "load", "-q", "@dev", "-", stdin="{ts:1}")
    shell.run("transaction", "commit", "-q")
    assert shell.run("query", "-z", "from logs@dev") == "{ts:1}\n"


def test_commands_that_stage_at_the_same_time_lose_nothing(shell: Shell) -> None:
    """Each takes what the one before has kept: the file is locked, and looked at again."""
    begin(shell, "logs", "items")
    many = 6
    command = [sys.executable, "-m", "shoal", "transaction", "load", "-q", "logs", "-"]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(many)]
    for number, process in enumerate(running):
        assert process.stdin is not None
        process.stdin.write(b"{ts:%d}" % number)
        process.stdin.close()
    assert [process.wait() for process in running] == [0] * many
    assert shell.run("transaction", "query", "-z", "from logs | count()") == f"{many}(uint64)\n"


@pytest.mark.direct
def test_who_waits_for_the_file_takes_what_came_meanwhile(shell: Shell) -> None:
    transaction = open_local(str(shell.lake)).begin(["logs"])
    saved_transactions.write(Saved.of(shell.uri, transaction))
    texts: list[str] = []

    def wait() -> None:
        with saved_transactions.held(shell.uri, None) as held:
            texts.append(held.saved.text)

    with saved_transactions.held(shell.uri, None) as held:
        waiter = threading.Thread(target=wait)
        waiter.start()
        transaction.load("logs", [{"ts": 1}])
        held.keep(transaction)
        newer = saved_transactions.find(shell.uri, None).text
        assert texts == []
    waiter.join(20)
    assert texts == [newer]
    assert newer != held.saved.text
    assert os.listdir(shell.directory / ".shoal_transactions") == [f"{transaction.id}.json"]


@pytest.mark.direct
def test_who_has_waited_is_waited_for(shell: Shell) -> None:
    """The file that it waited for was replaced: it holds the one that is there now."""
    transaction = open_local(str(shell.lake)).begin(["logs"])
    saved_transactions.write(Saved.of(shell.uri, transaction))
    is_in, may_leave, is_next = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with saved_transactions.held(shell.uri, None):
            is_in.set()
            may_leave.wait(20)

    def second() -> None:
        with saved_transactions.held(shell.uri, None):
            is_next.set()

    threads = [threading.Thread(target=each) for each in (first, second)]
    with saved_transactions.held(shell.uri, None) as held:
        threads[0].start()
        assert not is_in.wait(0.2)
        held.keep(transaction)
    assert is_in.wait(20)
    threads[1].start()
    assert not is_next.wait(0.2)
    may_leave.set()
    assert is_next.wait(20)
    for thread in threads:
        thread.join(20)
