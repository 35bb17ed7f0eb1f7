"""Every command of the lake, as it is meant to be called."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from shoal.cli import lake_flags
from shoal.ids import new, to_text
from shoal.testing.services import Served
from shoal.testing.shell import Shell

ID = r"[0-9A-Za-z]{27}"


def is_like(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def test_init_creates_a_lake_where_it_is_told_to(bare: Shell) -> None:
    assert bare.run("init") == f"lake created: file://{bare.lake}\n"
    assert bare.run("init", "other") == "lake created: other\n"
    assert bare.run("init", "-lake", "third/") == f"lake created: file://{bare.directory}/third\n"
    assert bare.run("ls", "-lake", "other") == ""


def test_a_lake_is_found_by_flag_by_environment_or_at_home(bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("flag", "shoal", "zed"):
        bare.run("init", "-q", name)
        bare.run("create", "-q", "-lake", name, f"in-{name}")

    def pool() -> str:
        return bare.run("ls").split(" ")[0]

    monkeypatch.setenv("ZED_LAKE", "zed")
    monkeypatch.setenv("SHOAL_LAKE", "shoal")
    assert bare.run("ls", "-lake", "flag").startswith("in-flag ")
    assert pool() == "in-shoal"
    monkeypatch.delenv("SHOAL_LAKE")
    assert pool() == "in-zed"
    monkeypatch.delenv("ZED_LAKE")
    assert bare.run("init") == f"lake created: file://{bare.directory}/.local/share/shoal\n"
    assert bare.run("ls") == ""
    monkeypatch.setenv("XDG_DATA_HOME", str(bare.directory / "data"))
    assert bare.run("init") == f"lake created: file://{bare.directory}/data/shoal\n"


def test_without_a_lake_at_home_the_service_of_this_machine_is_asked(
    bare: Shell, empty_service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOAL_LAKE")
    monkeypatch.setattr(lake_flags, "DEFAULT_SERVICE", empty_service.url)
    bare.run("create", "-q", "-lake", empty_service.url, "served")
    assert bare.run("ls").startswith("served ")
    assert bare.run("init") == f"lake created: file://{bare.directory}/.local/share/shoal\n"
    assert bare.run("ls") == ""
    (bare.directory / ".local/share/shoal/lake.zng").unlink()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1]):
            monkeypatch.setattr(lake_flags, "DEFAULT_SERVICE", f"http://127.0.0.1:{port}")
            assert bare.call("ls")[2].endswith("/shoal: lake does not exist (create it with: shoal init)\n")


def test_flags_of_all_commands_may_stand_before_the_command(bare: Shell) -> None:
    assert bare.run("-q", "-lake", "one", "init") == ""
    assert bare.run("-lake=one", "create", "-q", "logs") == ""
    assert bare.run("--lake", "one", "ls").startswith("logs ")
    assert bare.run("-version", "ls") == bare.run("ls", "-version") == bare.run("version")


def test_create_tells_the_id_and_may_switch_to_the_pool(shell: Shell) -> None:
    assert is_like(f"pool created: a {ID}\n", shell.run("create", "a"))
    assert is_like(
        f'pool created: b {ID}\nSwitched to branch "main" on pool "b"\n',
        shell.run("create", "-use", "-orderby", "host,x.y:asc", "-S", "1MB", "-seekstride", "1KB", "b"),
    )
    assert is_like(f"a {ID} key ts order desc\nb {ID} key host,x.y order asc\nlogs .*\n", shell.run("ls"))
    assert (
        shell.run("query", "-z", "from :pools | name=='b' | cut threshold,seek_stride")
        == "{threshold:1000000,seek_stride:1000}\n"
    )


def test_head_follows_a_pool_that_is_renamed(shell: Shell) -> None:
    shell.load("{ts:1}")
    shell.run("create", "-q", "other")
    shell.run("rename", "-q", "other", "else")
    assert shell.run("query", "-z", "count()") == "1(uint64)\n"
    shell.run("rename", "-q", "logs", "new")
    assert shell.run("query", "-z", "count()") == "1(uint64)\n"
    shell.load("{ts:2}")


def test_rename_and_drop(shell: Shell) -> None:
    assert is_like(f"pool {ID} renamed from logs to old\n", shell.run("rename", "logs", "old"))
    assert shell.run("drop", "-f", "old") == "pool deleted: old\n"
    assert shell.run("ls") == ""


def test_ls_lists_pools_or_the_branches_of_one_in_any_format(shell: Shell) -> None:
    commit = shell.load("{ts:1}")
    assert is_like(f"logs {ID} key ts order desc\n", shell.run("ls"))
    assert shell.run("ls", "logs") == f"logs@main commit {commit}\n"
    assert shell.run("ls", "-f", "text", "logs").count("\n") == 1
    assert shell.run("ls", "-j").startswith('{"ts":')
    assert shell.run("ls", "-z", "logs").endswith("(=lake.BranchMeta)\n")
    shell.run("ls", "-o", "pools.zson", "-Z")
    assert (shell.directory / "pools.zson").read_text().startswith("{\n    ts: ")


def test_use_switches_and_tells(shell: Shell) -> None:
    commit = shell.load("{ts:1}")
    shell.run("branch", "-q", "b1")
    assert shell.run("use", "@b1") == 'Switched to branch "b1" on pool "logs"\n'
    assert shell.run("use") == f"HEAD at logs@b1\nLake at {shell.uri}\n"
    assert shell.run("use", "logs") == 'Switched to branch "main" on pool "logs"\n'
    assert shell.run("use", f"logs@{commit}") == f'Switched to branch "{commit}" on pool "logs"\n'
    assert shell.fail("load", "-", stdin="{ts:2}") == f'"{commit}": branch not found'
    assert shell.run("query", "-z", "*") == "{ts:1}\n"
    assert shell.run("use", "-q", "logs@main") == ""


def test_head_is_kept_in_a_file_where_the_environment_says(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (shell.directory / ".shoal_head").read_text() == f"logs@main\t{shell.uri}\n"
    for name in ("ZED_HEAD_DIR", "SHOAL_HEAD_DIR"):
        folder = shell.directory / name
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
        assert shell.call("use")[2] == "default pool and branch unset\n"
        shell.run("use", "logs")
        assert (folder / ".shoal_head").read_text() == f"logs@main\t{shell.uri}\n"


def test_branches_are_created_listed_and_removed(shell: Shell) -> None:
    first = shell.load("{ts:1}")
    assert shell.run("branch", "b1") == '"b1": branch created\n'
    second = shell.load("{ts:2}")
    assert shell.run("branch", "-use", f"logs@{first}", "b2") == '"b2": branch created\n'
    assert shell.run("branch") == (
        f"logs@b1 commit {first}\nlogs@b2 commit {first}\nlogs@main commit {second} (HEAD)\n"
    )
    assert shell.run("branch", "-p", "@b1").split("\n")[0].endswith(" (HEAD)")
    assert shell.run("branch", "-d", "b1") == "branch deleted: b1\n"
    assert shell.run("branch", "-z").count("\n") == 2


def test_branches_are_listed_when_the_one_in_use_is_gone(shell: Shell) -> None:
    shell.run("branch", "-q", "b1")
    shell.run("use", "-q", "@b1")
    shell.run("branch", "-q", "-d", "b1")
    assert shell.run("branch") == f"logs@main commit {'0' * 27}\n"
    assert shell.fail("log") == shell.fail("branch", "b2") == '"b1": branch not found'
    assert shell.run("use", "logs") == 'Switched to branch "main" on pool "logs"\n'


def test_tags_are_created_listed_and_removed(shell: Shell) -> None:
    commit = shell.load("{ts:1}")
    assert shell.run("tag", "v1") == '"v1": tag created\n'
    shell.load("{ts:2}")
    assert shell.run("tag") == f"logs@v1 commit {commit}\n"
    assert shell.run("query", "-z", "-use", "@v1", "*") == "{ts:1}\n"
    assert shell.run("tag", "-d", "v1") == "tag deleted: v1\n"
    assert shell.run("tag") == ""


def test_load_takes_files_of_any_format_as_one_commit(shell: Shell) -> None:
    (shell.directory / "a.zson").write_text("{ts:1}")
    (shell.directory / "b.csv").write_text("ts;x\n2;y\n")
    assert is_like(f"{ID} committed\n", shell.run("load", "a.zson", "a.zson"))
    assert shell.run("load", "-q", "-i", "csv", "-csv.delim", ";", "b.csv") == ""
    assert is_like(f"{ID}", shell.load('{"ts":3}', "-i", "json"))
    assert shell.run("query", "-z", "*") == '{ts:3}\n{ts:2,x:"y"}\n{ts:1}\n{ts:1}\n'
    assert shell.run("query", "-z", "from logs:log | is(<Commit>) | count()") == "3(uint64)\n"


def test_load_notes_who_why_and_what_else(shell: Shell) -> None:
    shell.load("{ts:1}", "-user", "ann", "-message", "by hand", "-meta", "{job:7}")
    shell.load("{ts:2}")
    assert shell.run("query", "-z", "from HEAD:log | has(author) | cut author,message,meta | tail 1") == (
        '{author:"ann",message:"by hand",meta:{job:7}}\n'
    )
    assert shell.run("query", "-z", "from HEAD:log | has(author) | head 1 | yield author") == '"me"\n'


def test_the_author_is_taken_from_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_USER")
    monkeypatch.setenv("ZED_USER", "zoe")
    shell.load("{ts:1}")
    assert "\nAuthor: zoe\n" in shell.run("log")


def test_a_load_that_is_repeated_with_its_id_happens_once(shell: Shell) -> None:
    ident = to_text(new())
    first = shell.load("{ts:1}", "-id", ident)
    assert shell.load("{ts:1}", "-id", ident) == first
    assert shell.run("query", "-z", "count()") == "1(uint64)\n"


def test_use_and_p_name_the_pool_and_branch(shell: Shell) -> None:
    shell.run("create", "-q", "other")
    shell.run("branch", "-q", "-use", "other", "b1")
    for flag, value in (("-use", "other"), ("-p", "other@b1"), ("-use", "@main"), ("-p", "logs")):
        shell.load(f'{{ts:1,by:"{flag} {value}"}}', flag, value)
    assert shell.run("query", "-z", "from other | yield by") == '"-use other"\n'
    assert shell.run("query", "-z", "-p", "other@b1", "yield by") == '"-p other@b1"\n'
    assert shell.run("query", "-z", "sort by | yield by") == '"-p logs"\n"-use @main"\n'


def test_query_reads_the_pool_in_use_or_what_it_names(shell: Shell) -> None:
    shell.load("{ts:1} {ts:2}")
    assert shell.run("query", "-z", "sum(ts)") == "3\n"
    assert shell.run("query", "-j", "from logs | ts==1") == '{"ts":1}\n'
    assert shell.run("query", "-C", "from logs|ts==1") == "from logs\n| where ts==1\n"
    (shell.directory / "f.zed").write_text("func double(x): (2*x)")
    assert shell.run("query", "-z", "-I", "f.zed", "yield double(ts)") == "4\n2\n"
    (shell.directory / "q.zed").write_text("from logs | count()")
    assert shell.run("query", "-z", "-I", "q.zed") == "2(uint64)\n"
    assert shell.run("query").startswith("shoal query [flags] [QUERY]\n")


def test_query_tells_statistics_warnings_and_what_debug_sees_on_the_side(shell: Shell) -> None:
    commit = shell.load("{ts:1} {ts:2}")
    status, out, err = shell.call("query", "-z", "-s", "debug | ts==1")
    assert (status, out) == (0, "{ts:1}\n")
    assert err == "{ts:2}\n{ts:1}\n{bytes_read:4,bytes_matched:4,records_read:2,records_matched:2}\n"
    shell.run("delete", "-q", commit)
    assert shell.run("purge", "-f", commit) == "purged 1 object\n"
    status, out, err = shell.call("query", "-z", f"from logs@{commit}")
    assert (status, out) == (0, "")
    assert is_like(rf"logs: data object {ID} \(2 records\) was purged and is left out\n", err)
    assert shell.run("query", "-q", "-z", f"from logs@{commit}") == ""


def test_log_tells_commits_newest_first_and_which_branches_are_there(shell: Shell) -> None:
    first = shell.load("{ts:1}", "-user", "ann")
    shell.run("branch", "-q", "b1")
    second = shell.load("{ts:2} {ts:3}", "-message", "two\n\nmore")
    date = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    expected = (
        rf"commit {second} \(HEAD -> main\)\nAuthor: me\nDate:   {date}\nRecords: \+2\n\n    two\n\n    more\n\n"
        rf"commit {first} \(b1\)\nAuthor: ann\nDate:   {date}\nRecords: \+1\n\n"
        rf"    loaded 1 data object\n\n    {ID} 1 record in \d+ data bytes\n\n"
    )
    assert is_like(expected, shell.run("log"))
    assert shell.run("log", "-use", "@b1").startswith(f"commit {first} (HEAD -> b1)\n")
    assert shell.run("log", "-use", f"logs@{first}").startswith(f"commit {first} (b1)\n")
    assert shell.run("log", "-z").count("\n") == 2
    shell.run("tag", "-q", "v1")
    shell.run("tag", "-q", "-use", "@b1", "v0")
    log = shell.run("log")
    assert log.startswith(f"commit {second} (HEAD -> main, tag: v1)\n")
    assert f"commit {first} (b1, tag: v0)\n" in log
    assert shell.run("log", "-z").count("\n") == 2


def test_merge_and_rebase(shell: Shell) -> None:
    shell.load("{ts:1}")
    shell.run("branch", "-q", "b1")
    shell.load("{ts:2}", "-use", "@b1")
    assert shell.run("merge", "-use", "@b1", "main") == '"b1": merged into branch "main"\n'
    shell.load("{ts:3}")
    shell.load("{ts:4}", "-use", "@b1")
    assert shell.run("rebase", "-use", "@b1", "main") == '"b1": rebased onto branch "main"\n'
    assert shell.run("query", "-z", "-use", "@b1", "*") == "{ts:4}\n{ts:3}\n{ts:2}\n{ts:1}\n"
    assert shell.run("merge", "-q", "-use", "@b1", "-message", "all", "-meta", "1", "main") == ""
    assert shell.run("query", "-z", "from HEAD:log | message=='all' | yield meta") == "1\n"
    shell.load("{ts:5}")
    assert shell.run("merge", "-f", "b1") == '"main": merged into branch "b1"\n'


def test_revert_takes_a_commit_back(shell: Shell) -> None:
    first = shell.load("{ts:1}")
    shell.load("{ts:2}")
    assert is_like(f'"main": {first} reverted in {ID}\n', shell.run("revert", first))
    assert shell.run("query", "-z", "*") == "{ts:2}\n"


def test_delete_by_id_and_by_filter(shell: Shell) -> None:
    first = shell.load("{ts:1}")
    shell.load("{ts:2} {ts:3}")
    assert is_like(f"{ID} delete committed\n", shell.run("delete", first))
    assert shell.run("query", "-z", "*") == "{ts:3}\n{ts:2}\n"
    assert is_like(f"{ID} delete committed\n1 record deleted\n", shell.run("delete", "-where", "ts < 3"))
    assert shell.run("query", "-z", "*") == "{ts:3}\n"
    shell.load("{ts:4} {ts:5} {ts:6}")
    assert is_like(f"{ID} delete committed\n3 records deleted\n", shell.run("delete", "-where", "ts < 4 or ts > 4"))
    assert shell.run("delete", "-q", "-where", "ts == 4") == ""


def test_compact_rewrites_objects(shell: Shell) -> None:
    commits = [shell.load("{ts:1} {ts:3}"), shell.load("{ts:2}")]
    assert is_like(f"{ID} compaction committed\n", shell.run("compact", "-vectors", *commits))
    assert shell.run("query", "-z", "from HEAD:objects | cut min,max,count") == "{min:1,max:3,count:3(uint64)}\n"
    assert is_like(
        f"{ID} [0-9]+B bytes 3 records\n   min 1 max 3\n", shell.run("query", "-f", "lake", "from logs:objects")
    )


def test_vacuum_removes_what_nothing_reaches_after_a_grace_period(shell: Shell) -> None:
    shell.load("{ts:1}")
    shell.run("branch", "-q", "b1")
    shell.load("{ts:2}", "-use", "@b1")
    shell.load("{ts:3}", "-use", "@b1")
    shell.run("branch", "-q", "-d", "b1")
    assert shell.run("vacuum", "-f") == "vacuumed 0 objects\n"
    assert shell.run("vacuum", "-dryrun", "-grace", "0s") == "would vacuum 2 objects\n"
    assert shell.run("vacuum", "-f", "-grace", "0s") == "vacuumed 2 objects\n"
    assert shell.run("vacuum", "-f", "-q", "-grace", "0s") == ""
    assert shell.run("query", "-z", "*") == "{ts:1}\n"


def test_all_pools_can_be_vacuumed_at_once(shell: Shell) -> None:
    shell.run("create", "-q", "other")
    for pool in ("logs", "other"):
        shell.run("branch", "-q", "-use", pool, "b1")
        shell.load("{ts:1}", "-use", f"{pool}@b1")
        shell.run("branch", "-q", "-use", pool, "-d", "b1")
    (shell.directory / ".shoal_head").unlink()
    assert shell.run("vacuum", "-all", "-dryrun", "-grace", "0s") == "would vacuum 2 objects\n"
    assert shell.fail("vacuum", "-all").startswith(
        f'will not vacuum data objects from "{shell.uri}" without confirmation'
    )
    assert shell.run("vacuum", "-all", "-f", "-grace", "0s") == "vacuumed 2 objects\n"


def test_vacate_cuts_history_off(shell: Shell) -> None:
    shell.load("{ts:1}")
    second = shell.load("{ts:2}")
    assert shell.run("vacate", "-f", "main") == f"history of logs begins with {second}\n"
    assert shell.run("log").count("commit ") == 1
    assert shell.run("query", "-z", "*") == "{ts:2}\n{ts:1}\n"


def test_diff_tells_objects_or_values_that_came_and_went(shell: Shell) -> None:
    shell.load("{ts:1}")
    shell.run("tag", "-q", "v1")
    second = shell.load("{ts:2} {ts:3}")
    shell.run("delete", "-q", "-where", "ts == 1")
    assert is_like(
        rf"- {ID} \d+B bytes 1 records\n   min 1 max 1\n\+ {ID} .*\n   min 2 max 3\n", shell.run("diff", "v1")
    )
    assert shell.run("diff", "-values", "v1", "main") == "+ {ts:3}\n+ {ts:2}\n- {ts:1}\n"
    assert shell.run("diff", "-values", "@main", f"logs@{second}") == "+ {ts:1}\n"
    assert shell.run("diff", "-z", "-values", "v1", second) == (
        '{mark:"+",value:{ts:3}}(=lake.Change)\n{mark:"+",value:{ts:2}}(=lake.Change)\n'
    )
    assert shell.run("diff", "-z", "v1", second).startswith('{mark:"+",value:{id:0x')
    assert shell.run("diff", "main", "main") == ""


def test_info_tells_of_the_lake(shell: Shell) -> None:
    assert is_like(
        rf'{{uri:"{shell.uri}",id:"{ID}",version:1,features:\["lineage","pool-settings","stable-columns","transactions"\],pools:1}}\n',
        shell.run("info", "-z"),
    )
    assert shell.run("info").startswith("{\n    uri: ")


def test_quiet_commands_print_nothing(bare: Shell) -> None:
    for argv in (
        ("init",), ("create", "-use", "logs"), ("use", "logs"), ("rename", "logs", "l"), ("use", "l"), ("branch", "b"),
        ("branch", "-d", "b"), ("vacuum", "-dryrun"), ("manage",), ("drop", "-f", "l"),
    ):  # fmt: skip
        assert bare.run(*argv, "-q") == "", argv


def test_pools_have_any_printable_name(shell: Shell, tmp_path: Path) -> None:
    for name in ("it's", 'a "b" c', "x | y", "größe", "2024"):
        shell.run("create", "-q", "-use", name)
        shell.load("{ts:1}")
        assert shell.run("ls", name).startswith(f"{name}@main commit ")
        assert shell.run("log").startswith("commit ")
        assert shell.run("query", "-z", "*") == "{ts:1}\n"
        assert shell.run("branch").startswith(f"{name}@main ")


def test_each_lake_has_a_head_of_its_own(shell: Shell) -> None:
    other = str(shell.directory / "other")
    shell.run("init", "-q", other)
    shell.run("create", "-q", "-use", "-lake", other, "elsewhere")
    assert shell.run("use").startswith("HEAD at logs@main\n")
    assert shell.run("use", "-lake", other).startswith("HEAD at elsewhere@main\n")
    shell.run("use", "-q", "logs")
    assert shell.run("use", "-lake", other).startswith("HEAD at elsewhere@main\n")


def test_a_head_of_an_earlier_version_counts_for_lakes_without_one(shell: Shell) -> None:
    shell.load("{ts:1}")
    (shell.directory / ".shoal_head").write_text("logs@main\n")
    assert shell.run("query", "-z", "*") == "{ts:1}\n"
