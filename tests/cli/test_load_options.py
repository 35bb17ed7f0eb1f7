"""Options of `load` and `zq` about CSV and about records that cannot be read."""

from __future__ import annotations

import json

import pytest

from shoal.api.infos import CommitReport
from shoal.cli.reports import report_lines
from shoal.testing.shell import Shell

TABLE = "ts,zip,town,n\n1,02134,TRUE,1.10\n2,+44,Paris,NA\n3,1,,2\n"


def test_a_load_gives_csv_one_type_for_each_column(shell: Shell) -> None:
    (shell.directory / "t.csv").write_text(TABLE)
    shell.run("load", "-q", "t.csv")
    assert shell.run("query", "-z", "sort ts").splitlines() == [
        '{ts:1,zip:"02134",town:"TRUE",n:"1.10"}',
        '{ts:2,zip:"+44",town:"Paris",n:"NA"}',
        '{ts:3,zip:"1",town:null(string),n:"2"}',
    ]


def test_options_say_what_the_cells_of_csv_are(shell: Shell) -> None:
    (shell.directory / "t.csv").write_text("exported today\n" + TABLE.replace(",", ";") + "# end\n")
    flags = ("-csv.skip", "1", "-csv.comment", "#", "-csv.null", "NA", "-csv.types", "n=decimal(10,2),town=string")
    shell.run("load", "-q", *flags, "t.csv")
    assert shell.run("query", "-z", "sort ts | cut n").splitlines() == [
        "{n:1.10(decimal(10,2))}",
        "{n:null(decimal(10,2))}",
        "{n:2.00(decimal(10,2))}",
    ]


def test_a_table_from_a_pipe_has_the_types_of_all_of_it(shell: Shell) -> None:
    shell.load("ts,a\n" + "1,7\n" * 20_000 + "2,x\n", "-i", "csv")
    assert shell.run("query", "-z", "count() by typeof(a)") == "{typeof:<string>,count:20001(uint64)}\n"


def test_zq_keeps_the_rule_of_cells_unless_it_is_asked_for_columns(shell: Shell) -> None:
    text = "a\n1\nT\n007\n"
    assert shell.run("zq", "-z", "-i", "csv", "-", stdin=text) == '{a:1.}\n{a:true}\n{a:"007"}\n'
    by_column = shell.run("zq", "-z", "-i", "csv", "-csv.infer", "columns", "-", stdin=text)
    assert by_column == '{a:"1"}\n{a:"T"}\n{a:"007"}\n'


def test_names_types_and_choices_that_cannot_be_are_one_line(shell: Shell) -> None:
    (shell.directory / "t.csv").write_text(TABLE)
    for flags, message in (
        (("-csv.infer", "rows"), "invalid value 'rows' for flag -csv.infer (one of: columns, cells, text)"),
        (("-csv.ragged", "x"), "invalid value 'x' for flag -csv.ragged (one of: fill, error)"),
        (("-csv.types", "twon=string"), "t.csv: csv.types: no column is called 'twon' (did you mean town?)"),
        (("-csv.types", "n=decimal(99,2)"), "t.csv: csv.types: 'decimal(99,2)' is not a type"),
        (("-csv.skip", "-1"), "invalid value '-1' for flag -csv.skip"),
        (("-bad", "ignore"), "invalid value 'ignore' for flag -bad (one of: fail, skip, keep)"),
    ):
        status = 2 if message.startswith("invalid value") else 1
        assert shell.fail("load", *flags, "t.csv", status=status).startswith(message)


# ---- bad records

LINES = '{"ts":1}\n{"ts":\n{"ts":3}\n\nnope\n'


def test_bad_records_are_kept_counted_and_found_by_one_query(shell: Shell) -> None:
    (shell.directory / "log.ndjson").write_text(LINES)
    report = json.loads(shell.run("load", "-j", "-bad", "keep", "log.ndjson"))
    assert (report["records"], report["bad"], report["skipped"], report["errors"]) == (4, 2, 0, 2)
    found = shell.run("query", "-z", "is_error(this) | yield under(this) | sort line").splitlines()
    assert [text.replace(str(shell.directory) + "/", "") for text in found] == [
        '{file:"log.ndjson",line:2,text:"{\\"ts\\":",message:"unexpected end of JSON input"}',
        '{file:"log.ndjson",line:5,text:"nope",message:"column 1: expecting value"}',
    ]


def test_bad_records_are_skipped_and_counted(shell: Shell) -> None:
    (shell.directory / "log.ndjson").write_text(LINES)
    (shell.directory / "t.csv").write_text("ts,a\n7,1\n8\n")
    report = json.loads(shell.run("load", "-j", "-bad", "skip", "log.ndjson", "t.csv"))
    assert (report["records"], report["bad"], report["skipped"], report["errors"]) == (3, 3, 3, 0)
    assert json.loads(shell.run("load", "-j", "-", stdin="{ts:9}"))["bad"] == 0


def test_the_first_bad_record_fails_a_load_by_default(shell: Shell) -> None:
    before = shell.stored()
    (shell.directory / "log.ndjson").write_text(LINES)
    assert shell.fail("load", "log.ndjson") == "log.ndjson: line 2: unexpected end of JSON input"
    assert shell.stored() == before


def test_a_load_of_bad_records_only_has_nothing_to_load(shell: Shell) -> None:
    text = shell.fail("load", "-i", "ndjson", "-bad", "skip", "-", stdin="x\ny\n")
    assert text == "nothing to load: all records are bad, and 2 were skipped"


def test_binary_formats_refuse_to_read_on(shell: Shell) -> None:
    text = shell.fail("load", "-i", "parquet", "-bad", "keep", "-", stdin="x")
    assert text.startswith("stdio:stdin: parquet cannot be read past a bad record (-bad keep is for csv, ")


@pytest.mark.direct
def test_lines_of_a_report_say_what_became_of_bad_records() -> None:
    report = CommitReport("x", 10, 1000, 1, 2, 3, (), bad=7, skipped=5)
    assert report_lines(report)[1:] == [
        "5 bad records skipped",
        "2 bad records kept as errors (see: shoal query 'is_error(this)')",
        "1 error (see: shoal query 'is_error(this)')",
    ]
