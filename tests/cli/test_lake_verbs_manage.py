"""`shoal manage`: policies, log lines, rounds."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.testing.shell import Shell

OVERLAPPING = ("{ts:1} {ts:5}", "{ts:2} {ts:6}", "{ts:3}")


@pytest.fixture
def busy(shell: Shell) -> Shell:
    """A lake with two pools that are worth compacting, and a branch in one of them that is."""
    shell.run("create", "-q", "other")
    shell.run("branch", "-q", "b1")
    for place in ("logs", "other", "logs@b1"):
        for text in OVERLAPPING:
            shell.load(text, "-use", place)
    return shell


def objects(shell: Shell, *places: str) -> list[int]:
    """How many objects there are in some places."""
    return [shell.run("query", "-z", "-use", place, "from HEAD:objects").count("\n") for place in places]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_all_pools_are_compacted_and_then_come_to_rest(busy: Shell) -> None:
    status, out, err = busy.call("manage")
    assert (status, out) == (0, "")
    assert [(line["level"], line["msg"], line["name"]) for line in lines(err)] == [
        ("info", "updating pool", "logs"),
        ("info", "compaction completed", "logs"),
        ("info", "updating pool", "other"),
        ("info", "compaction completed", "other"),
    ]
    assert objects(busy, "logs", "other", "logs@b1") == [1, 1, 3]
    assert busy.run("query", "-z", "from other | yield ts") == "6\n5\n3\n2\n1\n"
    before = busy.stored()
    assert busy.run("manage", "-q", "-vectors") == ""
    assert busy.stored() == before


def test_pools_can_be_chosen(busy: Shell) -> None:
    busy.run("manage", "-q", "-pool", "other", "-pool", "logs@b1")
    assert objects(busy, "logs", "other", "logs@b1") == [3, 1, 1]


def test_a_policy_names_pools_and_branches_and_flags_override_it(busy: Shell) -> None:
    policy = busy.directory / "policy.yaml"
    policy.write_text(
        "interval: 5m\nvectors: true\npools:\n- pool: logs\n  branch: b1\n- pool: other\n  vectors: false\n"
    )
    busy.run("manage", "-q", "-config", "policy.yaml", "-pool", "logs")
    assert objects(busy, "logs", "other", "logs@b1") == [3, 3, 1]
    busy.run("manage", "-q", "-config", "policy.yaml")
    assert objects(busy, "logs", "other", "logs@b1") == [3, 1, 1]
    policy.write_text("")
    busy.run("manage", "-q", "-config", "policy.yaml")
    assert objects(busy, "logs") == [1]


@pytest.mark.parametrize(
    "text, error",
    [
        ("pols: []", "the policy has an unknown field 'pols' (one of: interval, engine, vectors, pools)"),
        ("- a", "the policy is not a map of fields (one of: interval, engine, vectors, pools)"),
        ("interval: 5", "the policy has an invalid value in its field 'interval': 5"),
        ("interval: soon", "invalid duration: 'soon'"),
        ("interval: 0s", "the interval of the policy must be positive, not 0s (such as 5m)"),
        (
            "pools: [{pool: x, size: 1}]",
            "a pool of the policy has an unknown field 'size' (one of: pool, branch, vectors)",
        ),
        ("pools: [{branch: x}]", "a pool of the policy has no name (write it as pool: NAME)"),
        ("pools: [{pool: logs}, {pool: logs}]", "the policy names pool 'logs' twice"),
        ("pools: [", "while parsing a flow node expected the node content, but found '<stream end>'"),
        ("a: !!python/object/apply:os.getpid []", "could not determine a constructor for the tag"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(text: str, error: str, shell: Shell) -> None:
    (shell.directory / "policy.yaml").write_text(text)
    line = shell.fail("manage", "-config", "policy.yaml")
    assert line.startswith(f"policy.yaml: {error}")
    assert "\n" not in line


def test_a_policy_that_names_what_is_not_there_changes_nothing(busy: Shell) -> None:
    (busy.directory / "policy.yaml").write_text("pools: [{pool: logs}, {pool: nope}]")
    assert busy.fail("manage", "-config", "policy.yaml") == "nope: pool not found"
    assert busy.call("manage", "-q", "-pool", "logs@nope") == (1, "", '"nope": branch not found\n')


def test_log_lines_go_where_they_are_told_to(busy: Shell) -> None:
    path = busy.directory / "log"
    for mode, count in (("truncate", 2), ("truncate", 2), ("append", 4), ("rotate", 6)):
        assert busy.run("manage", "-pool", "logs", "-log.path", "log", "-log.filemode", mode) == ""
        assert len(lines(path.read_text())) == count
    assert len(lines(busy.run("manage", "-pool", "logs", "-log.path", "stdout"))) == 2
    assert busy.run("manage", "-pool", "logs", "-log.path", "stdout", "-log.level", "warn") == ""
    busy.load("{ts:4}")
    found = lines(busy.run("manage", "-pool", "logs", "-log.path", "stdout", "-log.level", "debug"))
    assert [line["msg"] for line in found] == ["updating pool", "compacted", "compaction completed"]
    assert found[1]["objects_compacted"] == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_monitor_goes_on_until_a_signal_ends_it(number: int, busy: Shell, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    log = tmp_path / "log"

    def end() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (log.exists() and log.read_text().count("completed") >= 4):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=end)
    thread.start()
    assert busy.run("manage", "-monitor", "-interval", "10ms", "-log.path", str(log)) == ""
    thread.join()
    found = lines(log.read_text())
    assert found[0]["msg"] == "monitoring"
    assert found[0]["interval"] == "0.01s"
    assert found[-1]["msg"] == "monitoring ended"
    assert objects(busy, "logs", "other") == [1, 1]
    assert signal.getsignal(number) is before
