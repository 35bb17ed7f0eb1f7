"""The real `zed` drives our service through every verb, with the results that it gets from a real `zed serve`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import urllib3

import shoal
from shoal.testing.peers import Session, require_same

RECORDS = '{k:1,s:"a",x:1.5}{k:2,s:"b",x:2.5}'
FORMATS = ("arrows", "csv", "json", "parquet", "tsv", "vng", "zeek", "zjson", "zng", "zson")
LOG_TYPES = "the meta-query has the type names of the specification, without the package names of Go"
OWN_WORDS = "our error says what to do about it; the reference calls an invalid request an internal error"
UNKNOWN_ID = "1234567890abcdefghijklmnopq"


def pools(zed: Session) -> None:
    zed.run("ls")
    zed.run("create -orderby k:asc -use p")
    zed.run("create -orderby k:asc p")
    zed.run("create -S 10MiB q")
    zed.run("ls", is_sorted=True)
    zed.run("ls -z", is_sorted=True)
    zed.run("ls p")
    zed.run("use")
    zed.run("use q")
    zed.run("use nosuch")
    zed.run("use p")


def loads(zed: Session) -> str:
    (first,) = zed.ids(zed.run("load -user me -message first -", stdin=b'{k:1,s:"a"}{k:2,s:"b"}'))
    zed.run("load -user me -message m -meta {x:1} -", stdin=b'{k:3,s:"c"}')
    zed.run("load -", stdin=b"")
    zed.run("load -", stdin=b"{k:")
    zed.run("load -use p@nosuch -", stdin=b"{k:1}")
    zed.run("load -use nosuch -", stdin=b"{k:1}")
    return first


def queries(zed: Session) -> None:
    zed.run("query -z", "sort k")
    zed.run("query -z", "from p | count()")
    zed.run("query -z", "from p | sum(k) by s | sort s")
    zed.run("query -z -s", "from p | k > 1")
    zed.run("query -z", "from nosuch")
    zed.run("query -z", "from p |")
    zed.run("query -z", "from p | yield nosuch(1)")
    zed.run("query -z", "from p | fork (=> k==1 | output a => k==2 | output b => k==3)")
    zed.run("query -z", "from p | debug k | tail 1", is_sorted=True)
    for name in ("csv", "json", "zjson", "table", "zeek", "text"):
        zed.run(f"query -f {name}", "from p | sort k")


def metadata(zed: Session) -> None:
    zed.run("log")
    zed.run("log -z", ours="parent:ID3(ksuid.KSUID)", why=LOG_TYPES)
    zed.run("query -z", "from :pools | sort name")
    zed.run("query -z", "from :branches | sort pool.name")
    zed.run("query -z", "from p:branches | sort branch.name")
    zed.run("query -z", "from p:log | has(message) | drop id,parent,records,maintenance")
    zed.run("query -z", "from p:objects | sort min")
    zed.run("query -z", "from p:partitions")
    zed.run("query -z", "from p:rawlog", ours="(=Add)", why=LOG_TYPES)
    zed.run("query -z", "from p:vectors")
    zed.run("query -z", "from p:nosuch")


def branches(zed: Session, first: str) -> None:
    zed.run("branch")
    zed.run("branch dev")
    zed.run("branch dev")
    zed.run("branch other nosuch")
    zed.run("ls p", is_sorted=True)
    zed.run("load -use p@dev -user me -message dev -", stdin=b'{k:4,s:"d"}')
    zed.run("query -z", "from p@dev | sort k")
    zed.run("query -z", "from p@main | sort k")
    zed.run("merge -use p@dev -user me main")
    zed.run("merge -use p@dev -user me main", ours="400: error merging", why=OWN_WORDS)
    zed.run("query -z", "from p@main | sort k")
    zed.run("branch -d dev")
    zed.run("revert -user me " + first)
    zed.run("revert -user me " + UNKNOWN_ID, ours="404: ", why=OWN_WORDS)
    zed.run("query -z", "from p | sort k")
    zed.run("query -z", "from p:log | has(message) | yield {author,message,meta}")


def deletes(zed: Session) -> None:
    zed.run("load -user me -message back -", stdin=b'{k:1,s:"a"}{k:2,s:"b"}')
    first = zed.ids(zed.run("query -z", "from p:objects | sort min | yield id"))[0]
    zed.run("delete -user me -message m " + first)
    zed.run("delete -user me " + first, ours="not found (no such data object", why=OWN_WORDS)
    zed.run("query -z", "from p | sort k")
    zed.run("delete -user me -where", "k == 3")
    zed.run("delete -user me -where", "k == 33")
    zed.run("delete -user me -where", "k ==", ours="400: error parsing Zed", why=OWN_WORDS)
    zed.run("delete -user me")
    zed.run("query -z", "from p | sort k")
    zed.run("log")


def maintenance(zed: Session) -> None:
    for i in range(3):
        zed.run("load -user me -", stdin=f"{{k:{10 + i}}}{{k:{20 - i}}}".encode())
    objects = zed.ids(zed.run("query -z", "from p:objects | sort min, max | yield id"))
    zed.run("compact -user me " + objects[0], ours="400: compact: two or more", why=OWN_WORDS)
    zed.run("compact -user me " + " ".join(objects))
    zed.run("query -z", "from p:objects | count()")
    zed.run("query -z", "from p | sort k")
    for i in range(3):
        zed.run("load -user me -", stdin=f"{{k:{10 + i}}}{{k:{20 - i}}}".encode())
    zed.run("manage -log.level warn")
    zed.run("query -z", "from p | sort k")
    keeps = "data objects stay for a grace period, because queries may read them"
    zed.run("vacuum -dryrun", ours="would vacuum 0 objects", why=keeps)
    zed.run("vacuum -f", ours="vacuumed 0 objects", why=keeps)
    zed.run("vacate " + UNKNOWN_ID)


def renames(zed: Session) -> None:
    zed.run("rename q r")
    zed.run("rename nosuch s")
    zed.run("rename r p")
    zed.run("ls", is_sorted=True)
    zed.run("drop -f r")
    zed.run("drop -f r")


def formats(zed: Session, files: dict[str, Path]) -> None:
    for name, path in files.items():
        zed.run(f"create -q -use -orderby k {name}", is_sorted=True)
        zed.run(f"load -q -i {name}", str(path))
        zed.run("query -z", f"from {name} | sort k")


def authentication(zed: Session) -> None:
    zed.run("auth method")
    zed.run("auth verify", ours='"user_id": "anyone"', why="a caller without a token has the name anyone")
    zed.run("auth login -launchbrowser=false")
    zed.run("auth store -access abc")
    zed.run("ls", is_sorted=True)
    zed.run("auth logout")


def vectors(zed: Session) -> None:
    """At the end: Zed makes commits for vectors."""
    zed.run("use p")
    zed.run("vector add -user me " + UNKNOWN_ID, ours="404: ", why=OWN_WORDS)
    zed.run("vector delete -user me " + UNKNOWN_ID, ours="404: ", why=OWN_WORDS)
    (ident, *_) = zed.ids(zed.run("query -z", "from p:objects | sort min | yield id"))
    columns = "data objects are columns: there is nothing to add, and no commit"
    zed.run("vector add -user me " + ident)
    zed.run("query -z", "from p:vectors", ours="", why=columns)
    zed.run("vector delete -user me " + ident, ours="vectors deleted", why=columns)


@pytest.fixture(scope="module")
def files(zq: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    for name in FORMATS:
        command: list[str | Path] = [zq, "-f", name, "-o", folder / name, "sort k", "-"]
        subprocess.run(command, input=RECORDS.encode(), check=True, timeout=60)
    return {name: folder / name for name in FORMATS}


def test_every_verb_has_the_results_of_a_real_service(
    zed: Path, zed_url: str, shoal_url: str, files: dict[str, Path], tmp_path: Path
) -> None:
    sessions: list[Session] = []
    for url in (zed_url, shoal_url):
        session = Session([zed], url, tmp_path / f"home-{len(sessions)}")
        pools(session)
        first = loads(session)
        queries(session)
        metadata(session)
        branches(session, first)
        deletes(session)
        maintenance(session)
        renames(session)
        formats(session, files)
        authentication(session)
        vectors(session)
        sessions.append(session)
    require_same(*sessions)


@pytest.fixture(scope="module")
def urls(zed_url: str, shoal_url: str) -> tuple[str, str]:
    """Both services, with a pool `channels`."""
    for url in (zed_url, shoal_url):
        body = b'{name:"channels",layout:{order:"asc",keys:[["k"]]}}'
        assert urllib3.request("POST", f"{url}/pool", body=body).status == 200
        assert urllib3.request("POST", f"{url}/pool/channels/branch/main", body=b"{k:1}{k:2}{k:3}{k:4}").status == 200
    return zed_url, shoal_url


def messages(url: str, program: str) -> list[tuple[str, Any]]:
    """Values and control messages, without times and bytes. Those of one channel stay in order."""
    answer = urllib3.request(
        "POST",
        f"{url}/query?ctrl=T",
        body=json.dumps({"query": f"from channels | {program}"}).encode(),
        headers={"Accept": "application/x-zjson", "Content-Type": "application/json"},
    )
    assert answer.status == 200, answer.data
    shown: list[tuple[str, Any]] = []
    channel = ""
    for line in answer.data.decode().splitlines():
        message = json.loads(line)
        name, value = message["type"], message["value"]
        match name:
            case "QueryChannelSet":
                channel = value["channel"]
            case "QueryChannelEnd":
                shown.append((value["channel"], "end"))
            case "QueryStats":
                shown.append(("statistics", sorted(value)))
            case _:
                shown.append((channel, value))
    return sorted(shown, key=lambda item: item[0])


@pytest.mark.parametrize(
    "program",
    [
        "fork (=> k<=2 | output a => k>2 | output b)",
        "fork (=> k<=2 | output a => pass)",
        "fork (=> k==9 | output a => output main)",
        "k==9",
        "k==9 | output a",
        "debug k==1",
        "put x:=1 | output main",
    ],
)
def test_each_output_is_a_channel(urls: tuple[str, str], program: str) -> None:
    zed, ours = (messages(url, program) for url in urls)
    assert ours == zed


@pytest.mark.parametrize("path", ["/auth/method", "/auth/identity", "/version"])
def test_answers_have_the_format_that_is_accepted(shoal_url: str, path: str) -> None:
    for kind in ("application/x-zng", "application/x-zjson", "application/x-zson", "application/json"):
        answer = urllib3.request("GET", shoal_url + path, headers={"Accept": kind})
        assert answer.status == 200
        assert answer.headers["Content-Type"].partition(";")[0] == kind


def test_commit_notes_have_keys_in_any_case_and_no_others(urls: tuple[str, str]) -> None:
    ours = urls[1]

    def load(note: dict[str, str]) -> urllib3.BaseHTTPResponse:
        url = f"{ours}/pool/channels/branch/main"
        return urllib3.request("POST", url, body=b"{k:5}", headers={"Zed-Commit": json.dumps(note)})

    assert load({"AUTHOR": "me", "bOdY": "m"}).status == 200
    refused = load({"author": "me", "message": "m"})
    assert refused.status == 400
    assert b"unknown key 'message'" in refused.data


def test_warnings_go_only_to_clients_that_can_read_them(zed: Path, urls: tuple[str, str], tmp_path: Path) -> None:
    """Version 1.18 of the client fails on a control message that it does not know."""
    ours = urls[1]
    lake = shoal.open(ours)
    pool = lake.create("purged", key="k")
    commit = pool.load([{"k": 1}])
    objects = [each.id for each in pool.objects()]
    pool.delete(objects)
    pool.purge(objects)
    program = f"from purged@{commit} | count()"
    body = json.dumps({"query": program}).encode()

    def names(query: str, **headers: str) -> list[str]:
        sent = {"Accept": "application/x-zjson", "Content-Type": "application/json", **headers}
        answer = urllib3.request("POST", f"{ours}/query?ctrl=T{query}", body=body, headers=sent)
        return [message["type"] for message in map(json.loads, answer.data.splitlines())]

    assert "QueryWarning" not in names("")
    assert "QueryWarning" in names("&warnings=T")
    assert "QueryWarning" in names("", **{"User-Agent": "shoal/0.1.0"})
    session = Session([zed], ours, tmp_path / "home")
    session.run("query -z", program)
    assert session.steps[0].output.endswith("exit 0")
