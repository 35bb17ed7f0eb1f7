"""`shoal` drives a real `zed serve` through every verb that it has, with the results that the real `zed` gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import shoal
from shoal.api.branch import CherryPick, Rebase
from shoal.api.options import ReadOptions
from shoal.errors import InvalidInput, NotFound, Unsupported
from shoal.testing.peers import Session, require_same, zed_serving
from shoal.testing.shell import Shell

UNKNOWN_ID = "1234567890abcdefghijklmnopq"
OWN_WORDS = "the client has its own words"


class ShoalSession(Session):
    """Runs our commands in this process: starting one for each would take most of the time."""

    shell: Shell

    def execute(self, argv: Sequence[str], stdin: bytes) -> tuple[int, str]:
        status, out, err = self.shell.call(*argv, stdin=stdin.decode())
        return status, out + err


def drive(client: Session) -> None:
    run = client.run
    run("ls")
    run("create -orderby k:asc -use p")
    run("create -orderby k:asc p", ours="p: pool already exists", why=OWN_WORDS)
    run("create -S 10MiB q")
    run("ls", is_sorted=True)
    run("ls -z", is_sorted=True)
    run("ls p", ours="p@main commit NO-ID\n", why="the reference takes any empty branch for the one in use")
    run("use nosuch", ours="nosuch", why=OWN_WORDS)
    (first,) = client.ids(run("load -user me -message first -", stdin=b'{k:1,s:"a"}{k:2,s:"b"}'))
    run("load -user me -message m -meta {x:1} -", stdin=b'{k:3,s:"c"}')
    run("load -user me -use p@nosuch -", stdin=b"{k:1}", ours="branch not found", why=OWN_WORDS)
    run("load -user me -i csv -", stdin=b"k,s\n5.5,e\n")
    run("log")
    run("query -z", "sort k")
    run("query -z", "from p | count() by s | sort s")
    run("query -z -s", "from p | k > 1")
    run("query -z", "from nosuch")
    run("query -z", "from p | yield nosuch(1)")
    run("query -z", "from p:objects | drop id | sort min")
    run("query -z", "from p:log | has(message) | yield {author,message,meta}")
    run("query -z", "from p | debug k | tail 1", is_sorted=True)
    run("branch dev")
    run("branch dev", ours="branch", why=OWN_WORDS)
    run("branch other nosuch", ours="nosuch", why=OWN_WORDS)
    run("ls p", is_sorted=True)
    run("load -use p@dev -user me -message dev -", stdin=b'{k:4,s:"d"}')
    run("merge -use p@dev -user me main")
    run("query -z", "from p@main | sort k")
    run("revert -user me " + first)
    run("query -z", "from p | sort k")
    run("load -user me -message back -", stdin=b'{k:1,s:"a"}{k:2,s:"b"}')
    ident = client.ids(run("query -z", "from p:objects | sort min | yield id"))[0]
    run("delete -user me " + ident)
    run("delete -user me -where", "k == 3", ours="1 record deleted", why="our client says how many records went")
    run("delete -user me -where", "k == 33")
    run("query -z", "from p | sort k")
    for i in range(2):
        run("load -user me -", stdin=f"{{k:{10 + i}}}{{k:{20 - i}}}".encode())
    objects = client.ids(run("query -z", "from p:objects | sort min, max | yield id"))
    run("compact -user me " + " ".join(objects))
    run("query -z", "from p:objects | count()")
    for i in range(2):
        run("load -user me -", stdin=f"{{k:{10 + i}}}{{k:{20 - i}}}".encode())
    run("manage -log.level warn")
    run("query -z", "from p | sort k")
    run("vacuum -dryrun")
    run("vacuum -f")
    run("rename q r")
    run("rename nosuch s", ours="nosuch", why=OWN_WORDS)
    run("drop -f r")
    run("ls")


def test_every_verb_has_the_results_of_the_real_client(
    zed: Path,
    zed_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    reference = Session([zed], zed_url, tmp_path / "home")
    drive(reference)
    with zed_serving(zed, tmp_path) as url:
        ours = ShoalSession([], url, tmp_path / "own-home")
        ours.shell = Shell(ours.home, monkeypatch, capsysbinary)
        drive(ours)
        require_same(reference, ours)


def test_what_a_zed_service_lacks_is_named(zed_url: str) -> None:
    lake = shoal.open(zed_url)
    pool = lake.create("lacking", key="k")
    pool.load([{"k": 1}, {"k": 2}])
    missing = {
        "tags": lambda: pool.create_tag("v1"),
        "transactions": lambda: pool.begin(),
        "SQL": lambda: lake.sql("select 1"),
        "diff of values": lambda: pool.diff_values("main", "main"),
        "purge": lambda: pool.purge([UNKNOWN_ID]),
        "explain": lambda: lake.explain("from lacking"),
        "rebase": lambda: lake.do(Rebase(pool.id, "main", "main")),
        "cherry-pick": lambda: lake.do(CherryPick(pool.id, "main", UNKNOWN_ID)),
        "vacate over HTTP": lambda: pool.vacate(UNKNOWN_ID),
        "status of its lake": lake.status,
    }
    for words, act in missing.items():
        with pytest.raises(Unsupported) as e:
            act()
        assert str(e.value).startswith(f"the service at {zed_url} is Zed ")
        assert str(e.value).endswith(f" and has no {words}")
    with pytest.raises(Unsupported, match="and has no transactions"):
        lake.begin(["lacking"])
    with pytest.raises(Unsupported, match="and has no transactions"):
        lake.resume("{}")
    assert pool.tags() == []


def test_python_uses_a_zed_service_like_any_lake(zed_url: str, tmp_path: Path) -> None:
    lake = shoal.open(zed_url)
    pool = lake.create("python", key="k")
    (tmp_path / "a.csv").write_text("k;s\n1;x\n")
    (tmp_path / "b.zson").write_text("{k:2}")
    commit = pool.load([tmp_path / "a.csv"], options=ReadOptions(csv_delimiter=";"), message="one")
    pool.load([{"k": 3}, tmp_path / "b.zson"], message="two")
    assert lake.query("from python | sort k").to_list() == [{"k": 1.0, "s": "x"}, {"k": 2}, {"k": 3}]
    assert [each.message for each in pool.log()] == ["two", "one"]
    pool.create_branch("dev", commit).load([{"k": 4}], message="three", author="grace")
    assert [each.message for each in pool.log(all=True)] == ["three", "two", "one"]
    assert [each.message for each in pool.log(all=True, author="GR", limit=1)] == ["three"]
    assert pool.query("has(s) | yield k").to_list() == [1.0]
    assert pool.branch("dev").query("count()").to_list() == [2]
    assert pool.resolve(commit) == commit
    assert lake.query(f"from python@{commit} | count()").to_list() == [1]
    results = lake.query("from python | has(s)", statistics=True)
    results.hold()
    assert (results.statistics.records_read, results.statistics.records_matched) == (3, 1)
    seen: list[tuple[str, int]] = []
    program = "from python | k==2 | yield k | output a"
    lake.query(program, on_output=lambda name, value: seen.append((name, value.data))).hold()
    assert seen == [("a", 2)]
    with pytest.raises(NotFound):
        lake.pool("nosuch")
    with pytest.raises(NotFound):
        pool.resolve("nosuch")
    with pytest.raises(InvalidInput):
        lake.query("from python |")
