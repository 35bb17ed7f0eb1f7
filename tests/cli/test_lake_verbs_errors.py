"""What commands of the lake say when they cannot do what they are asked for: one line, and the lake as it was."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from shoal.formats.registry import readable
from shoal.ids import new, to_text
from shoal.storage import local
from shoal.testing.shell import Shell

UNKNOWN = "3M9GwnJNR9ruPC1pEa1hxmkhYcq"
UNSET = "default pool and branch unset (name them with -use pool@branch, or once with: shoal use)"
NO_BRANCH = '"nope": branch not found'
NO_POOL = "nope: pool not found"
NO_COMMIT = f"{UNKNOWN}: commit not found (see: shoal log)"
NO_OBJECT = f"{UNKNOWN}: not found (no such data object here; see: shoal query 'from POOL:objects')"
BAD_ID = "invalid id: 'xx' (27 letters and digits, or 0x and 40 hexadecimal digits)"
COMMITISH = "(write pool, pool@branch, pool@commit or @branch)"
NO_FILE = "nope.zson: file does not exist"
UNCONFIRMED = "without confirmation, and there is no terminal to ask on (force with -f)"

CASES = [
    # pools
    (["create", "logs"], "logs: pool already exists"),
    (["create", "-orderby", "a b", "x"], "invalid pool key 'a b' (fields joined by dots, several keys by commas)"),
    (["create", "-orderby", "ts:up", "x"], "invalid order 'up' of the pool key 'ts:up' (asc or desc)"),
    (["create", "a@b"], "invalid pool name: 'a@b' (@, : and HEAD have a meaning of their own)"),
    (["create", "-S", "0", "x"], "the size of objects and the seek stride have to be positive"),
    (["drop", "nope"], NO_POOL),
    (["drop", "-f", "nope"], NO_POOL),
    (["rename", "nope", "x"], NO_POOL),
    (["rename", "logs", "other"], "other: pool already exists"),
    (["ls", "nope"], NO_POOL),
    (["ls", "-lake", "nope"], "file://{directory}/nope: lake does not exist (create it with: shoal init)"),
    # branches
    (["use", "nope"], NO_POOL),
    (["use", "logs@nope"], NO_BRANCH),
    (["use", f"logs@{UNKNOWN}"], NO_COMMIT),
    (["use", "logs@2001-01-01T00:00:00Z"], 'logs: there was no branch "main" yet at 2001-01-01T00:00:00Z'),
    (["branch", "main"], '"main": branch already exists'),
    (["branch", "a b"], "invalid branch name: 'a b' (no spaces, quotes or any of @ : | * ? , ;)"),
    (["branch", "-use", "logs@nope", "x"], NO_BRANCH),
    (["branch", "-use", "nope"], NO_POOL),
    (["branch", "-d", "nope"], NO_BRANCH),
    (["tag", "-use", "other", "v1"], "other: there is no commit to tag yet"),
    (["tag", "main"], '"main": branch already exists'),
    (["tag", "-d", "nope"], '"nope": tag not found'),
    # data
    (["load", "nope.zson"], NO_FILE),
    (["load", "good.zson", "nope.zson"], NO_FILE),
    (["load", "good.zson", "bad.zson"], "bad.zson: line 2, column 5: expected a value, found '}}'"),
    (["load", "good.zson", "folder"], "folder: is a directory"),
    (["load", "-use", "nope", "good.zson"], NO_POOL),
    (["load", "-use", "@nope", "good.zson"], NO_BRANCH),
    (["load", "-use", f"logs@{UNKNOWN}", "good.zson"], f'"{UNKNOWN}": branch not found'),
    (["load", "-id", "xx", "good.zson"], BAD_ID),
    (["query", "-use", "nope", "count()"], NO_POOL),
    (["query", "-use", "@nope", "count()"], NO_BRANCH),
    (["query", "-I", "nope.zson"], NO_FILE),
    (["log", "-use", "nope"], NO_POOL),
    (["log", "-use", "@nope"], NO_BRANCH),
    # changes
    (["merge", "b1"], "merging the main branch into another branch is unusual; use -f to force"),
    (["merge", "-f", "nope"], NO_BRANCH),
    (["merge", "-use", "@nope", "main"], NO_BRANCH),
    (["merge", "-use", "@b1", "b1"], "cannot merge branch into itself"),
    (["merge", "-use", "@b1", "main"], 'error merging "b1" into "main": nothing to merge'),
    (["rebase", "nope"], NO_BRANCH),
    (["rebase", "main"], "cannot rebase branch onto itself"),
    (["revert", "nope"], NO_BRANCH),
    (["revert", UNKNOWN], NO_COMMIT),
    (["revert", "-use", "@nope", "main"], NO_BRANCH),
    (["delete", "xx"], BAD_ID),
    (["delete", UNKNOWN], NO_OBJECT),
    (["delete", "-where", "cut a"], "invalid delete where query: must be a single filter operation"),
    (
        ["delete", "-where", "true"],
        (
            "true is a search for values that contain it, not a condition (compare a field, as in name == 'x'; "
            "write where true for all records)"
        ),
    ),
    (["delete", "-where", "a==99"], "empty transaction"),
    (["compact", "xx", "yy"], BAD_ID),
    (["compact", UNKNOWN, UNKNOWN], NO_OBJECT),
    (["compact", "{commit}"], "compact: two or more source objects required"),
    (["diff", "nope"], NO_BRANCH),
    (["diff", "-values", "main", UNKNOWN], NO_COMMIT),
    # maintenance
    (["vacuum", "-use", "nope", "-f"], NO_POOL),
    (["vacuum", "-f", "-grace", "-1s"], "the grace period cannot be negative"),
    (["vacate", "-f", UNKNOWN], NO_COMMIT),
    (["vacate", "-f", "-use", "other", "main"], "other@main: nothing has been committed there yet"),
    (["purge", "-f", "xx"], BAD_ID),
    (["purge", "-f", UNKNOWN], f"{UNKNOWN}: no data object or commit has this id"),
    (["manage", "-pool", "nope"], NO_POOL),
    (["manage", "-config", "nope.zson"], NO_FILE),
    (["manage", "-log.path", "folder/no/x"], "folder/no/x: no such file or directory"),
    # without confirmation
    (["drop", "logs"], f'will not delete pool "logs" {UNCONFIRMED}'),
    (["vacuum"], f'will not vacuum data objects from "logs@main" {UNCONFIRMED}'),
    (["vacate", "main"], f'will not remove the history of pool "logs" before {{commit}} {UNCONFIRMED}'),
    (["purge", UNKNOWN], f'will not purge {UNKNOWN} from all history of pool "logs" {UNCONFIRMED}'),
    # the command itself
]

MISUSES = [
    (["init", "a", "b"], "too many arguments: unexpected 'b'"),
    (["create"], "create requires one argument: the name of the pool"),
    (["create", "-S", "big", "x"], "invalid value 'big' for flag -S (such as 500MiB)"),
    (["drop"], "a single pool name must be specified"),
    (["rename", "logs"], "two pool names must be provided: the old one and the new one"),
    (["ls", "a", "b"], "too many arguments: unexpected 'b'"),
    (["ls", "-lake", ""], "no lake given (use -lake or set SHOAL_LAKE)"),
    (["info", "x"], "no arguments allowed (name a lake with -lake)"),
    (["use", "logs@"], f"invalid commitish: 'logs@' {COMMITISH}"),
    (["use", "a@b@c"], f"invalid commitish: 'a@b@c' {COMMITISH}"),
    (["use", ""], f"invalid commitish: '' {COMMITISH}"),
    (["branch", "-d"], "no branch given (write: shoal branch -d NAME)"),
    (["tag", "-d"], "no tag given (write: shoal tag -d NAME)"),
    (["load"], "load: at least one input file must be specified (- for stdin)"),
    (
        ["load", "-i", "table", "good.zson"],
        f"invalid value 'table' for flag -i (one of: auto, {', '.join(readable())})",
    ),
    (["load", "-meta", "{{", "good.zson"], "-meta: expected a field name, found the end"),
    (["load", "-sortmem", "0", "good.zson"], "sortmem value must be greater than zero"),
    (["query", "from", "logs"], "too many arguments: unexpected 'logs'"),
    (["log", "x"], "no arguments allowed (name a branch with -use pool@branch)"),
    (["merge"], "merge target branch must be given"),
    (["rebase"], "the branch to rebase onto must be given"),
    (["revert"], "commit ID must be specified (see: shoal log)"),
    (["delete"], "no data object IDs specified (see: shoal query -f lake 'from HEAD:objects')"),
    (["delete", "-where", "a", "b"], "delete by ids, by -where, by -keys or by -partition, and not by two of them"),
    (["compact"], "no data objects named (see: shoal query 'from POOL:objects')"),
    (["diff"], "one or two commits must be given (write: shoal diff OLD [NEW])"),
    (["vacuum", "x"], "no arguments allowed (name a pool with -use)"),
    (["vacuum", "-grace", "soon"], "invalid value 'soon' for flag -grace (such as 1h30m)"),
    (["vacate"], "commit ID must be specified (see: shoal log)"),
    (["purge"], "no data object IDs specified (see: shoal query -f lake 'from HEAD:rawlog')"),
    (["manage", "x"], "no arguments allowed (name a pool with -pool)"),
    (["manage", "-interval", "0s"], "the interval must be positive (such as -interval 5m)"),
    (["manage", "-log.level", "x"], "invalid value 'x' for flag -log.level (one of: debug, info, warn, error)"),
    (["manage", "-log.filemode", "x"], "invalid value 'x' for flag -log.filemode (one of: append, truncate, rotate)"),
    (["nope"], "shoal: unknown command 'nope' (see: shoal -help)"),
    (["help", "nope"], "shoal: unknown command 'nope' (see: shoal -help)"),
    (["-nope"], "flag provided but not defined: -nope (see -help)"),
    (["ls", "-nope"], "flag provided but not defined: -nope (see -help)"),
    (["-lake"], "flag needs an argument: -lake"),
    (["log", "-z", "-f", "csv"], "cannot use -z or -Z with -f"),
    (
        ["diff", "logs@main", "other@main"],
        "logs@main and other@main are in different pools (compare commits of one pool)",
    ),
]


SERVED = {"empty transaction": "no records in request"}
"""What a load is told by a service, in the words that its clients know."""


@pytest.mark.parametrize("argv, line", MISUSES, ids=[" ".join(argv) for argv, _ in MISUSES])
def test_a_command_that_is_not_written_as_its_help_says_ends_with_status_2(
    argv: list[str], line: str, shell: Shell
) -> None:
    shell.run("create", "-q", "other")
    assert shell.misuse(*(word.format() for word in argv)) == line


@pytest.mark.parametrize("argv, line", CASES, ids=[" ".join(argv) or "nothing" for argv, _ in CASES])
def test_a_wrong_call_is_one_line_that_names_the_thing_and_changes_nothing(
    argv: list[str], line: str, shell: Shell
) -> None:
    (shell.directory / "good.zson").write_text("{ts:1}")
    (shell.directory / "bad.zson").write_text("{ts:1}\n{ts:}\n")
    (shell.directory / "folder").mkdir()
    shell.run("create", "-q", "other")
    places = {"commit": shell.load("{ts:1}"), "lake": str(shell.lake), "directory": str(shell.directory)}
    shell.run("branch", "-q", "b1")
    got = shell.fail(*(word.format(**places) for word in argv))
    assert "\n" not in got
    assert got == (SERVED.get(line, line) if shell.is_served and argv[0] == "load" else line).format(**places)


@pytest.mark.parametrize(
    "argv",
    [
        ["log"], ["branch"], ["branch", "x"], ["tag", "x"], ["load", "-"], ["merge", "main"], ["rebase", "main"],
        ["revert", UNKNOWN], ["delete", UNKNOWN], ["compact", UNKNOWN, UNKNOWN], ["vacuum", "-f"],
        ["vacate", "-f", UNKNOWN], ["purge", "-f", UNKNOWN], ["diff", "main"],
    ],
)  # fmt: skip
def test_without_a_pool_in_use_commands_tell_how_to_name_one(argv: list[str], shell: Shell) -> None:
    (shell.directory / ".shoal_head").unlink()
    assert shell.misuse(*argv) == UNSET
    assert shell.fail("use") == "default pool and branch unset"
    assert shell.misuse("use", "@main") == shell.misuse("log", "-use", "@main") == "default pool unset"
    assert shell.fail("query", "count()") == "query must include a 'from' operator"


HINTS = [
    (["drop", "-f", "lgos"], "lgos: pool not found (did you mean logs?)"),
    (["rename", "lgos", "x"], "lgos: pool not found (did you mean logs?)"),
    (["use", "LOGS"], "LOGS: pool not found (did you mean logs?)"),
    (["log", "-use", "logs@mian"], '"mian": branch not found (did you mean main?)'),
    (["load", "-use", "logs@mian", "-"], '"mian": branch not found (did you mean main?)'),
    (["branch", "-d", "expermient"], '"expermient": branch not found (did you mean experiment?)'),
    (["tag", "-d", "relaese"], '"relaese": tag not found (did you mean release?)'),
    (["query", "from logs@relaese"], '"relaese": branch not found (did you mean release?) at line 1, column 1:'),
    (["query", "from lgos"], "lgos: pool not found (did you mean logs?) at line 1, column 6:"),
    (["query", "from logs | lowwer(x)"], "no such function (did you mean lower?) at line 1, column 13:"),
    (["query", "from logs | countt()"], "no such function (did you mean count?) at line 1, column 13:"),
    (["query", "from logs:objcts"], 'unknown metadata type "objcts" (did you mean objects?) at line 1, column 1:'),
    (["query", "from :polls"], 'unknown lake metadata type "polls" in from operator (did you mean pools?)'),
]


@pytest.mark.parametrize("argv, line", HINTS, ids=[" ".join(argv) for argv, _ in HINTS])
def test_a_misspelt_name_is_corrected(argv: list[str], line: str, shell: Shell) -> None:
    shell.load("{ts:1}")
    shell.run("branch", "-q", "experiment")
    shell.run("tag", "-q", "release")
    assert shell.fail(*argv, stdin="{ts:1}").startswith(line)


def test_details_of_an_error_come_with_v(shell: Shell) -> None:
    short, long = (shell.fail("load", *flags, "-", stdin="hello {").splitlines() for flags in ((), ("-v",)))
    assert len(short) == 1
    assert long[:1] == short
    assert "\tcsv: line 1: delimiter ',' not found" in long


def test_a_load_of_nothing_makes_no_commit(way: str, shell: Shell) -> None:
    assert shell.fail("load", "-") == ("no records in request" if way == "service" else "empty transaction")


def test_a_lake_is_created_once_and_not_by_a_service(way: str, shell: Shell) -> None:
    refused = f"{shell.uri}: a service does not create lakes (create one at its path or URI, and serve it)"
    assert shell.fail("init") == (refused if way == "service" else f"{shell.uri}: lake already exists")


@pytest.mark.parametrize("name", ["SHOAL_LAKE", "ZED_LAKE"])
def test_a_location_that_is_set_to_nothing_is_refused(name: str, bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_LAKE")
    monkeypatch.setenv(name, "")
    expected = "no lake given (use -lake or set SHOAL_LAKE)"
    assert bare.misuse("ls") == bare.misuse("init") == bare.misuse("create", "x") == expected


def test_a_head_that_cannot_be_understood_tells_how_to_set_it(shell: Shell) -> None:
    head = shell.directory / ".shoal_head"
    head.write_text("nonsense")
    assert shell.fail("log") == f"{head}: not a valid pool@branch (reset it with: shoal use pool@branch)"
    head.unlink()
    head.mkdir()
    assert shell.fail("use", "logs") == f"{head}: is a directory"


def test_a_pool_that_is_in_use_may_have_been_dropped(shell: Shell) -> None:
    shell.run("drop", "-q", "-f", "logs")
    assert shell.fail("log") == shell.fail("load", "-", stdin="1") == "logs: pool not found"
    assert shell.run("query", "-z", "from :pools") == ""


def test_errors_in_a_query_point_at_the_place(shell: Shell) -> None:
    assert shell.fail("query", "from nope") == "nope: pool not found at line 1, column 6:\nfrom nope\n     ~~~~"
    assert shell.fail("query", "from logs | count(").startswith("error parsing Zed at line 1, column 19:\n")
    assert shell.fail("delete", "-where", "a ==").startswith("error parsing Zed at line 1, column 5:\n")


def test_an_unreadable_file_in_the_middle_of_a_large_load_leaves_nothing_behind(shell: Shell) -> None:
    shell.run("create", "-q", "-use", "-S", "1KB", "small")
    lines = "".join(f'{{ts:{i},s:"{"x" * 50}"}}\n' for i in range(500))
    (shell.directory / "many.zson").write_text(lines)
    (shell.directory / "bad.zson").write_text(f"{lines}{{ts:}}\n")
    assert shell.fail("load", "many.zson", "bad.zson", "many.zson") == (
        "bad.zson: line 501, column 5: expected a value, found '}'"
    )
    assert shell.run("query", "-z", "*") == ""


@pytest.mark.direct
@pytest.mark.parametrize(
    "argv",
    [["init", "new"], ["create", "x"], ["rename", "logs", "x"], ["branch", "x"], ["tag", "x"], ["load", "-"],
     ["merge", "-f", "b1"], ["revert", "main"], ["delete", "-where", "ts==1"], ["vacate", "-f", "main"]],
)  # fmt: skip
def test_a_full_disk_is_one_line_and_changes_nothing(
    argv: list[str], shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.load("{ts:1}")
    shell.run("branch", "-q", "b1")
    shell.load("{ts:2}")

    def full(file: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(local, "_write", full)
    line = shell.fail(*argv, stdin="{ts:3}")
    assert line.endswith(": no space left on device")
    assert str(shell.directory) in line


@pytest.mark.direct
def test_a_disk_that_fills_up_during_a_load_keeps_nothing_of_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.run("create", "-q", "-use", "-S", "1KB", "small")
    written: list[int] = []
    write = local._write

    def filling(file: int, data: bytes) -> None:
        written.append(len(data))
        if sum(written) > 3000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, data)

    monkeypatch.setattr(local, "_write", filling)
    lines = "".join(f'{{ts:{i},s:"{i * 7919 % 1000003:050d}"}}\n' for i in range(500))
    assert shell.fail("load", "-", stdin=lines).endswith(": no space left on device")
    assert len(written) > 4


@pytest.mark.direct
def test_a_directory_that_may_not_be_written_is_one_line(shell: Shell) -> None:
    if os.getuid() == 0:
        pytest.skip("root may write anywhere")
    shell.lake.chmod(0o500)
    try:
        assert shell.fail("load", "-", stdin="{ts:1}").endswith(": permission denied")
    finally:
        shell.lake.chmod(0o700)


def test_data_that_is_still_in_a_branch_is_not_purged(shell: Shell) -> None:
    commit = shell.load("{ts:1}")
    assert shell.fail("purge", "-f", commit).endswith(': still in branch "main" (delete it there first)')


def test_a_branch_that_would_lose_its_history_is_named(shell: Shell) -> None:
    shell.load("{ts:1}")
    shell.run("branch", "-q", "b1")
    second = shell.load("{ts:2}")
    assert shell.fail("vacate", "-f", second) == (
        f'branch "b1" does not descend from {second}, so its history would be cut '
        "(remove it, or choose an older commit)"
    )


def test_a_merge_that_conflicts_names_what_is_in_the_way(shell: Shell) -> None:
    commit = shell.load("{ts:1} {ts:2}")
    shell.run("branch", "-q", "b1")
    shell.run("update", "-q", "-use", "@b1", "-where", "ts==1", "put ts:=3")
    shell.run("delete", "-q", commit)
    line = shell.fail("merge", "-use", "@b1", "main")
    assert line.startswith('error merging "b1" into "main": commit ')
    assert line.endswith(" meanwhile (revert that commit first, or repeat the change on what is there now)")


def test_an_output_that_cannot_be_written_is_one_line(shell: Shell, tmp_path: Path) -> None:
    assert shell.fail("ls", "-o", "no/such/x") == "no/such/x: no such file or directory"


def test_an_id_of_another_branch_is_not_taken_for_a_repetition(way: str, shell: Shell) -> None:
    ident = to_text(new())
    shell.run("branch", "-q", "b1")
    shell.load("{ts:1}", "-id", ident)
    status, out, err = shell.call("load", "-use", "@b1", "-id", ident, "-", stdin="{ts:1}")
    assert (status, out) == (1, "")
    refused = f"{ident}: this key came with another request before (use a new one)\n"
    assert err == (
        refused if way == "service" else 'this operation was one on another branch than "b1" (use a new id)\n'
    )
