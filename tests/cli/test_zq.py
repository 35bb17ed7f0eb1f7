from __future__ import annotations

import gzip
import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from shoal.testing.scripts import call_shoal


def shoal(*argv: str, stdin: bytes = b"", cwd: Path | None = None) -> tuple[int, str, str]:
    with chdir(cwd or Path.cwd()):
        status, out, err = call_shoal(argv, stdin)
    return status, out.decode(), err


def zq(*argv: str, stdin: bytes = b"", cwd: Path | None = None) -> tuple[int, str, str]:
    return shoal("zq", *argv, stdin=stdin, cwd=cwd)


def test_the_version_is_printed() -> None:
    status, out, _ = shoal("--version")
    assert status == 0
    assert out.startswith("Version: v0.")


def test_files_are_read_in_order_and_written_in_the_format_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a":1}\n')
    (tmp_path / "b.csv").write_text("a,b\n2,x\n")
    assert zq("-z", "*", "a.json", "b.csv", cwd=tmp_path) == (0, '{a:1}\n{a:2.,b:"x"}\n', "")
    assert zq("-z", "a.json", cwd=tmp_path) == (0, "{a:1}\n", "")
    assert zq("-j", "a.json", cwd=tmp_path) == (0, '{"a":1}\n', "")
    assert zq("-J", "a.json", cwd=tmp_path) == (0, '{\n    "a": 1\n}\n', "")
    assert zq("-f", "zson", "-pretty", "2", "a.json", cwd=tmp_path) == (0, "{\n  a: 1\n}\n", "")
    assert zq("-f=csv", "a.json", cwd=tmp_path) == (0, "a\n1\n", "")


def test_a_zng_frame_beyond_readmax_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zson").write_text('"' + "x" * 2000 + '"')
    assert zq("-f", "zng", "-o", "a.zng", "a.zson", cwd=tmp_path)[0] == 0
    assert zq("-z", "-zng.readmax", "3KB", "a.zng", cwd=tmp_path)[0] == 0
    status, out, error = zq("-z", "-i", "zng", "-zng.readmax", "1KB", "a.zng", cwd=tmp_path)
    assert (status, out) == (1, "")
    assert error == "a.zng: zng: frame at byte 0: frame length (2003) exceeds maximum allowed (1000)\n"


def test_zng_through_a_pipe_is_the_default() -> None:
    status = subprocess.run(
        f"printf '{{a:1.2.3.4}}' | {sys.executable} -m shoal zq - | {sys.executable} -m shoal zq -z -",
        shell=True,
        capture_output=True,
    )
    assert status.stdout == b"{a:1.2.3.4}\n"


@pytest.mark.parametrize(
    "name, text, error",
    [
        ("bad.json", '{"a":1}\n{"a":2\n', "bad.json: line 2: unexpected end of JSON input\n"),
        ("bad.json", '{"a":1}\n{"a" 2}\n', "bad.json: line 2, column 6: expecting ':' delimiter\n"),
        ("bad.zson", "{a:1}\n{a:}\n", "bad.zson: line 2, column 4: expected a value, found '}'\n"),
        ("bad.zson", '{a:1}\n"a"(foo)\n', "bad.zson: line 2, column 5: no such type name: 'foo'\n"),
        ("bad.csv", "a,b\n1,2\n3\n", "bad.csv: line 3: expected 2 fields, found 1\n"),
    ],
)
def test_bad_input_is_one_line_with_file_and_place_and_what_came_before_is_written(
    name: str, text: str, error: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    status, out, err = zq("-z", "-i", name.partition(".")[2], name, cwd=tmp_path)
    assert status == 1
    assert err == error
    assert out in ("{a:1}\n", "{a:1.,b:2.}\n")


def test_what_came_before_an_error_is_complete_in_binary_output_too(tmp_path: Path) -> None:
    (tmp_path / "bad.zson").write_text("{a:1}\n{a:2}\n{a:}\n")
    assert zq("-i", "zson", "-o", "out.zng", "bad.zson", cwd=tmp_path)[0] == 1
    assert zq("-z", "out.zng", cwd=tmp_path) == (0, "{a:1}\n{a:2}\n", "")


def test_with_e_false_an_error_inside_a_file_is_an_error_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "bad.zson").write_text("{a:1}\n{a:}\n")
    (tmp_path / "good.zson").write_text("{a:2}\n")
    for flags in (("-i", "zson"), ()):
        status, out, err = zq("-z", "-e=false", *flags, "bad.zson", "good.zson", cwd=tmp_path)
        assert (status, out) == (1, "{a:1}\n")
        assert err.startswith("bad.zson: line 2")


def test_details_of_an_error_are_printed_with_v(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("hello {")
    short, long = (zq("-z", *flags, "*", "bad.txt", cwd=tmp_path)[2].splitlines() for flags in ((), ("-v",)))
    assert len(short) == 1
    assert long[:1] == short
    assert "\tcsv: line 1: delimiter ',' not found" in long


def test_with_e_false_a_file_of_no_known_format_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("hello {")
    (tmp_path / "good.zson").write_text("{a:2}\n")
    status, out, err = zq("-z", "-e=false", "*", "bad.txt", "good.zson", cwd=tmp_path)
    assert (status, out) == (0, "{a:2}\n")
    assert err.startswith("bad.txt: format detection error")
    status, out, err = zq("-z", "-e=false", "-i", "json", "*", "bad.txt", "good.zson", cwd=tmp_path)
    assert (status, out) == (1, "")


def test_with_e_false_one_file_at_least_has_to_be_readable(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("hello {")
    for program in ("*", "count()", "yield 1"):
        status, out, err = zq("-z", "-e=false", "-q", program, "bad.txt", "nope.zson", cwd=tmp_path)
        assert (status, out) == (1, "")
        assert err == "no input specified: use a command-line file or a Zed source operator\n"


@pytest.mark.parametrize(
    "program", ["file a.zson | put c:=3", "from (file a.zson file b.zson)", "get http://localhost:1/"]
)
def test_files_beside_a_source_in_the_program_are_refused(program: str, tmp_path: Path) -> None:
    for name in ("a.zson", "b.zson"):
        (tmp_path / name).write_text("{a:1}")
    status, out, err = zq("-z", program, "b.zson", cwd=tmp_path)
    assert (status, out) == (2, "")
    assert err == "redundant inputs specified: use either command-line files or a Zed source operator\n"
    assert zq("-z", program, "nope.zson", cwd=tmp_path)[2] == "nope.zson: file does not exist\n"


@pytest.mark.parametrize(
    "argv, error",
    [
        (["-z", "*", "nowhere"], "nowhere: file does not exist\n"),
        (["-I", "nowhere", "-"], "nowhere: file does not exist\n"),
        (["-z", "and()", "-"], "and: argument required\n"),
        (["-z", "-split", "/dev/null", "-"], "/dev/null: "),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_1(argv: list[str], error: str) -> None:
    status, out, err = zq(*argv)
    assert (status, out) == (1, "")
    assert err.startswith(error)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "argv, error",
    [
        (["-f", "tabel", "-"], "invalid value 'tabel' for flag -f (did you mean table?)\n"),
        (["-f", "yaml", "-"], "invalid value 'yaml' for flag -f (one of: arrow, arrows, csv, "),
        (["-i", "table", "-"], "invalid value 'table' for flag -i (one of: auto, arrow, arrows, avro, csv, "),
        (["-nosuch", "-"], "flag provided but not defined: -nosuch (see -help)\n"),
        (["-prety", "0", "-"], "flag provided but not defined: -prety (did you mean -pretty?)\n"),
        (["-z", "-J", "-"], "cannot use -j or -J with -f, -z, or -Z\n"),
        (["-j", "-f", "csv", "-"], "cannot use -j or -J with -f, -z, or -Z\n"),
        (["-Z", "-f", "csv", "-"], "cannot use -z or -Z with -f\n"),
        (["-sortmem", "0", "-"], "sortmem value must be greater than zero\n"),
        (["-z", "-split", "a", "-o", "b/c", "-"], "with -split, -o is the prefix of file names"),
        (["-pretty", "-3", "-"], "invalid value '-3' for flag -pretty"),
        (["-csv.delim", "ab", "-"], "invalid value 'ab' for flag -csv.delim"),
        (["-pretty", "x", "-"], "invalid value 'x' for flag -pretty"),
        (["-persist", "(", "-z", "-"], "bad regular expression '('"),
    ],
)
def test_a_wrong_call_is_one_line_and_status_2(argv: list[str], error: str) -> None:
    status, out, err = zq(*argv)
    assert (status, out) == (2, "")
    assert err.startswith(error)
    assert err.count("\n") == 1


def test_split_writes_a_file_for_each_type(tmp_path: Path) -> None:
    text = b'{_path:"conn",a:1}\n{_path:"dns",b:2}\n{_path:"conn",a:3}\n{c:4}\n{_path:"../x",d:5}\n'
    assert zq("-z", "-split", "out", "-", stdin=text, cwd=tmp_path) == (0, "", "")
    made = {p.name: p.read_text() for p in (tmp_path / "out").iterdir()}
    assert made == {
        "conn.zson": '{_path:"conn",a:1}\n{_path:"conn",a:3}\n',
        "dns.zson": '{_path:"dns",b:2}\n',
        "2.zson": "{c:4}\n",
        "_x.zson": '{_path:"../x",d:5}\n',
    }


def test_the_input_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.zson").write_text("{a:1}\n")
    assert zq("-z", "-o", "a.zson", "a.zson", cwd=tmp_path)[0::2] == (
        2,
        "a.zson: input and output are the same file (write to another file)\n",
    )
    assert (tmp_path / "a.zson").read_text() == "{a:1}\n"


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = subprocess.run(
        f"(echo '{{a:1}}' > pipe &); {sys.executable} -m shoal zq -z pipe",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == b"{a:1}\n"


@pytest.mark.parametrize("redirection, error", [("> /dev/full", "no space left"), (">&-", "standard output is closed")])
def test_an_output_that_cannot_be_written_is_one_line(redirection: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "a.zson").write_text("{a:1}\n" * 10_000)
    command = f"{sys.executable} -m shoal zq -z a.zson {redirection}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_closed_standard_input_is_one_line() -> None:
    done = subprocess.run(f"{sys.executable} -m shoal zq -z - <&-", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "stdio:stdin: is closed\n")


def test_help_names_every_flag() -> None:
    status, out, _ = zq("-help")
    assert status == 0
    for flag in ("-i FMT", "-persist RE", "-zng.framethresh SIZE"):
        assert flag in out


def test_a_reader_that_stops_early_is_no_error() -> None:
    done = subprocess.run(
        f"yes '{{a:1}}' | head -200000 | {sys.executable} -m shoal zq -z - | head -1", shell=True, capture_output=True
    )
    assert (done.stdout, done.stderr) == (b"{a:1}\n", b"")


@pytest.mark.parametrize("argv", [["--version"], ["zq", "-z", "*", "-"], ["zq", "-help"]])
def test_start_up_loads_no_heavy_library(argv: list[str]) -> None:
    code = (
        "import sys; from shoal.cli.main import main; main(sys.argv[1:]); "
        "print([m for m in ('pyspark', 'duckdb', 'pyarrow', 'numpy', 'pandas') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], input=b"{a:1}", capture_output=True)
    assert done.stderr == b"[]\n"


def test_an_output_of_nothing_is_none_and_an_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "keep.parquet").write_text("original")
    status, _, err = zq("-f", "parquet", "-o", "keep.parquet", "yield {a:[1,'x']}", cwd=tmp_path)
    assert (status, err.count("\n")) == (1, 1)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("keep.parquet", "original")]
    assert zq("-f", "parquet", "-o", "keep.parquet", "yield {a:1}", cwd=tmp_path)[0] == 0
    assert zq("-z", "keep.parquet", cwd=tmp_path)[1] == "{a:1}\n"
    assert zq("-z", "-o", "no/such/x", "yield 1", cwd=tmp_path)[2] == "no/such/x: no such file or directory\n"


def test_an_output_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "link").symlink_to("to/file")
    for text in ("1\n", "2\n"):
        assert zq("-z", "-o", "link", f"yield {text}", cwd=tmp_path) == (0, "", "")
        assert (tmp_path / "to" / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()


def test_standard_output_can_be_named_whatever_it_is(tmp_path: Path) -> None:
    (tmp_path / "stdout").symlink_to("/dev/stdout")
    command = [sys.executable, "-m", "shoal", "zq", "-z", "-o", "stdout", "yield 1"]
    assert subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True).stdout == b"1\n"
    with (tmp_path / "file").open("wb") as file:
        subprocess.run(command, cwd=tmp_path, stdout=file, check=True)
    assert (tmp_path / "file").read_text() == "1\n"
    assert (tmp_path / "stdout").is_symlink()


def test_an_empty_query_and_a_very_long_one() -> None:
    assert zq("-z", "", "-", stdin=b"1 2") == (0, "1\n2\n", "")
    assert zq("-z", f"yield len('{'x' * 5000}')") == (0, "5000\n", "")


def test_with_e_false_a_missing_file_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "good.zson").write_text("1")
    assert zq("-z", "-e=false", "*", "nope.zson", "good.zson", cwd=tmp_path) == (
        0,
        "1\n",
        "nope.zson: file does not exist\n",
    )


def test_statistics_go_to_standard_error() -> None:
    assert zq("-z", "-s", "this > 1", "-", stdin=b"1 2 3")[2] == (
        "{bytes_read:3,bytes_matched:2,records_read:3,records_matched:2}\n"
    )


def test_a_value_beyond_the_memory_of_reading_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"[" + b"1," * 600_000 + b"1]")
    assert zq("-f", "null", "a.json", cwd=tmp_path)[0] == 0
    status, _, error = zq("-f", "null", "-read.memory", "64MiB", "a.json", cwd=tmp_path)
    assert status == 1
    assert error == (
        "a.json: line 1: one value would take more than 32 MiB of memory, half of the limit "
        "(raise -read.memory, or -limit.memory of a service)\n"
    )


def test_input_that_expands_beyond_the_ratio_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * 999_999 * 70, 1))
    status, _, error = zq("-f", "null", "-i", "line", "-read.ratio", "50", "-zng.readmax", "1GB", "a.gz", cwd=tmp_path)
    assert status == 1
    assert error == (
        "a.gz: gzip: expands more than 50 times, like a decompression bomb "
        "(raise -read.ratio, or -limit.ratio of a service)\n"
    )
    assert zq("-f", "null", "-i", "line", "-zng.readmax", "1GB", "a.gz", cwd=tmp_path)[0] == 0
