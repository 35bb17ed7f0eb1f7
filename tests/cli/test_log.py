"""`shoal log`: what it lists, and how merges are shown."""

from __future__ import annotations

import json
import re

import pytest

from shoal.testing.shell import Shell


@pytest.fixture
def commits(shell: Shell) -> dict[str, str]:
    """Two branches that were merged once; the ids of the commits by their messages."""

    def load(name: str, author: str, branch: str) -> str:
        return shell.load(f"{{ts:{len(ids)}}}", "-user", author, "-message", name, "-use", f"logs@{branch}")

    ids: dict[str, str] = {}
    ids["first"] = load("first", "ada", "main")
    shell.run("branch", "-q", "dev")
    ids["tuesday"] = load("tuesday", "grace@example.com", "dev")
    ids["wednesday"] = load("wednesday", "lin", "dev")
    ids["hotfix"] = load("hotfix", "ada", "main")
    shell.run("merge", "-q", "-use", "logs@dev", "-user", "ada", "main")
    ids["merge"] = shell.run("log", "-j", "-n", "1").split('"')[3]
    ids["later"] = load("later", "grace@example.com", "dev")
    shell.run("tag", "-q", "-use", "logs@main", "v1")
    return ids


def listed(shell: Shell, commits: dict[str, str], *argv: str) -> list[str]:
    """The commits that a log lists, by name."""
    names = {ident: name for name, ident in commits.items()}
    return [names[ident] for ident in re.findall(r"^[*|\s\\/]*commit (\w+)", shell.run("log", *argv), re.MULTILINE)]


def test_a_merge_shows_who_loaded_what(shell: Shell, commits: dict[str, str]) -> None:
    log = shell.run("log")
    assert (
        '    merged "dev" into "main"\n\n'
        f"    Merged {commits['wednesday']} lin: wednesday\n"
        f"    Merged {commits['tuesday']} grace@example.com: tuesday\n\n"
        f"commit {commits['hotfix']}\n"
    ) in log
    assert listed(shell, commits) == ["merge", "hotfix", "first"]


def test_all_lists_the_commits_of_all_branches(shell: Shell, commits: dict[str, str]) -> None:
    newest_first = ["later", "merge", "hotfix", "wednesday", "tuesday", "first"]
    assert listed(shell, commits, "-all") == newest_first
    assert listed(shell, commits, "-all", "-graph") == newest_first
    assert listed(shell, commits, "-graph") == newest_first[1:]
    assert "Merged" not in shell.run("log", "-all")


def test_a_graph_draws_branches_and_merges(shell: Shell, commits: dict[str, str]) -> None:
    log = shell.run("log", "-graph", "-all")
    for name, ident in commits.items():
        log = log.replace(ident, name)
    rows = [re.sub(" *(Author|Date|Records|    ).*", "", line).rstrip() for line in log.splitlines()]
    assert [row for row in rows if row.replace("|", "").strip()] == [
        "* commit later (dev)",
        "| *   commit merge (HEAD -> main, tag: v1)",
        "| |\\",
        "| * | commit hotfix",
        "| |/",
        "|/|",
        "* | commit wednesday",
        "* | commit tuesday",
        "|/",
        "* commit first",
    ]
    assert log.endswith("      first\n\n")


def test_authors_are_found_by_a_part_of_their_names(shell: Shell, commits: dict[str, str]) -> None:
    assert listed(shell, commits, "-all", "-author", "GRACE") == ["later", "tuesday"]
    assert listed(shell, commits, "-all", "-author", "g*@*.com") == ["later", "tuesday"]
    assert listed(shell, commits, "-author", "ada") == ["merge", "hotfix", "first"]
    assert listed(shell, commits, "-author", "lin") == ["merge"]
    assert listed(shell, commits, "-graph", "-all", "-author", "lin") == ["wednesday"]
    assert listed(shell, commits, "-author", "nobody") == []
    assert json.loads(shell.run("log", "-j", "-all", "-author", "lin"))["message"] == "wednesday"


def test_n_limits_what_is_listed(shell: Shell, commits: dict[str, str]) -> None:
    assert listed(shell, commits, "-n", "2") == ["merge", "hotfix"]
    assert listed(shell, commits, "-n", "1", "-author", "grace", "-all") == ["later"]
    assert listed(shell, commits, "-n", "2", "-graph", "-all") == ["later", "merge"]
    assert listed(shell, commits, "-n", "2", "-graph", "-author", "ada") == ["merge", "hotfix"]


def test_json_is_commits_only_and_all_have_the_same_fields(shell: Shell, commits: dict[str, str]) -> None:
    lines = [json.loads(line) for line in shell.run("log", "-j").splitlines()]
    assert {tuple(line) for line in lines} == {
        ("id", "parent", "merged", "author", "date", "message", "meta", "records", "maintenance", "transaction",
         "branches", "tags")
    }  # fmt: skip
    assert [line["id"] for line in lines] == [commits["merge"], commits["hotfix"], commits["first"]]
    assert [line["merged"] for line in lines] == [commits["wednesday"], None, None]
    assert [line["parent"] for line in lines] == [commits["hotfix"], commits["first"], None]
    assert (lines[0]["branches"], lines[0]["tags"], lines[1]["branches"]) == (["main"], ["v1"], [])
    assert len(shell.run("log", "-j", "-all").splitlines()) == 6
    assert shell.run("log", "-f", "table").count("\n") == 4
    assert shell.run("log", "-f", "csv").count("\n") == 4


def test_a_graph_is_for_people(shell: Shell) -> None:
    problem = "a graph is drawn in the format lake only (leave out -graph, or -f, -z and -j)"
    assert shell.misuse("log", "-graph", "-j") == problem


def test_the_log_of_an_empty_branch_is_empty(shell: Shell) -> None:
    for argv in ([], ["-all"], ["-graph"], ["-j"]):
        assert shell.run("log", *argv) == ""


def test_many_merged_commits_are_counted(shell: Shell) -> None:
    shell.load("{ts:0}")
    shell.run("branch", "-q", "dev")
    for number in range(22):
        shell.load(f"{{ts:{number}}}", "-use", "logs@dev")
    shell.run("merge", "-q", "-use", "logs@dev", "main")
    log = shell.run("log", "-n", "1")
    assert log.count("    Merged ") == 20
    assert log.endswith("    and 2 more (see: shoal log -all)\n\n")


def test_a_graph_draws_branches_that_were_merged_into_each_other(shell: Shell) -> None:
    names: dict[str, str] = {}

    def commit(name: str, branch: str) -> None:
        names[shell.load("{ts:1}", "-message", name, "-use", f"logs@{branch}")] = name
        shell.run("branch", "-q", "-use", f"logs@{branch}", name)

    commit("root", "main")
    shell.run("branch", "-q", "a")
    shell.run("branch", "-q", "b")
    commit("a1", "a")
    commit("b1", "b")
    for one, other in ("ab", "ba"):
        shell.run("merge", "-q", "-use", f"logs@{other}1", one)
        names[json.loads(shell.run("log", "-j", "-n", "1", "-use", f"logs@{one}"))["id"]] = one + other
    log = shell.run("log", "-graph", "-all")
    for ident, name in names.items():
        log = log.replace(ident, name)
    rows = [re.sub(" *(Author|Date|Records|    ).*", "", line).rstrip() for line in log.splitlines()]
    assert [re.sub(r" \(.*", "", row) for row in rows if row.replace("|", "").strip()] == [
        "*   commit ba",
        "|\\",
        "| | *   commit ab",
        "| | |\\",
        "| | |/",
        "| |/|",
        "|/| |",
        "* | | commit b1",
        "| |/",
        "| * commit a1",
        "|/",
        "* commit root",
    ]
    assert listed(shell, {name: ident for ident, name in names.items()}, "-all", "-graph", "-since", "main") == [
        "ba", "ab", "b1", "a1",
    ]  # fmt: skip


def test_a_number_of_commits_is_the_most_that_are_listed(shell: Shell, commits: dict[str, str]) -> None:
    assert listed(shell, commits, "-n", "1") == ["merge"]
    assert shell.run("log", "-n", "0") == ""
