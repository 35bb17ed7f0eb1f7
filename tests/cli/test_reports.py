"""What a load tells of its commit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.api.infos import CommitReport, FieldChange
from shoal.cli.reports import report_lines
from shoal.testing.shell import Shell


def load(shell: Shell, text: str) -> Any:
    return json.loads(shell.run("load", "-j", "-", stdin=text))


def test_a_report_has_the_counts_and_the_fields_that_are_new_or_changed(shell: Shell) -> None:
    first = load(shell, '{ts:1,a:"x",r:{b:1}} {ts:2,a:"y",r:{b:null}} error("bad")')
    assert (first["records"], first["shapes"], first["errors"], first["has_key"]) == (3, 3, 1, True)
    assert [(field["path"], field["types"]) for field in first["fields"]] == [
        ("a", ["string"]),
        ("r.b", ["int64"]),
        ("ts", ["int64"]),
    ]
    second = load(shell, "{ts:3,a:7,r:{b:2,c:1.5}}")
    assert second["fields"] == [
        {"path": "a", "types": ["int64"], "before": ["string"]},
        {"path": "r.c", "types": ["float64"], "before": []},
    ]
    assert second["size"] > 0
    assert load(shell, '{ts:4,a:"z"}')["fields"] == []
    assert load(shell, "{b:4}")["has_key"] is False


def test_any_commit_can_be_reported_later(shell: Shell) -> None:
    first, second = load(shell, "{ts:1}"), load(shell, "{ts:2,x:1}")
    assert second["commit"] in shell.run("log", "-f", "lake")
    assert first["fields"] != second["fields"]


def test_an_empty_file_is_nothing_to_load(shell: Shell) -> None:
    before = shell.stored()
    (shell.directory / "empty.csv").touch()
    assert shell.run("load", "empty.csv") == "nothing to load\n"
    assert shell.run("load", "-q", "empty.csv", "empty.csv") == ""
    assert shell.stored() == before


def test_an_array_of_records_is_loaded_as_records_unless_it_is_to_be_a_value(shell: Shell) -> None:
    text = '[{"ts":1,"a":[1,2]},\n {"ts":2,"a":[]}]'
    assert load(shell, text)["records"] == 2
    assert json.loads(shell.run("load", "-j", "-json.array", "value", "-", stdin=text))["records"] == 1
    assert shell.run("query", "-z", "count() by k:=kind(this) | sort k | yield int64(count)") == "1\n2\n"
    assert (
        shell.fail("load", "-i", "json", "-", stdin='[{"ts":1},]')
        == "stdio:stdin: line 1: element 2 of the array: expected a value"
    )
    assert shell.misuse("load", "-json.array", "x", "-") == (
        "invalid value 'x' for flag -json.array (one of: records, value)"
    )


@pytest.mark.direct
def test_lines_of_a_report() -> None:
    fields = (
        FieldChange("a", ("int64",), ("float64", "string")),
        *(FieldChange(f"f{i}", ("string",)) for i in range(10)),
    )
    report = CommitReport("x", 1234, 2_500_000, 2, 3, 1, fields, has_key=False)
    assert report_lines(report) == [
        "1,234 records of 3 shapes, 2.5 MB in 2 objects",
        "new fields: " + ", ".join(f"f{i} (string)" for i in range(8)) + ", and 2 more",
        "new types: a (int64; before: float64, string)",
        "1 error (see: shoal query 'is_error(this)')",
        "warning: no record has the pool key, so queries by key read all of them",
    ]
