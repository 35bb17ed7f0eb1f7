"""Large files give the same answers in columns as value by value."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import shoal
from shoal.api.options import ReadOptions
from shoal.engines.interp.engine import evaluate
from shoal.errors import ShoalError
from shoal.formats import registry
from shoal.formats.streams import WriteOptions
from shoal.lang import plan
from shoal.lang.compile import compile_program
from shoal.model.parse import parse_value
from shoal.model.text import format_value
from shoal.model.values import Value
from shoal.planner import file_scans
from shoal.planner.engine_choice import THRESHOLDS
from shoal.planner.file_scans import with_files, with_inputs

PROGRAMS = (
    "count()",
    "count() by host",
    "status==404 | count()",
    "sum(took), max(id) by status | sort status",
    "gamma | count()",
    "id<5",
    "took>99.5 and beta | cut id, host",
    "count() by n:=len(msg) | sort n",
    "min(id) by kind:=typeof(this) | sort min",
)
FORMATS = ("ndjson", "zng", "csv", "parquet", "arrows", "zson", "vng")
LOW = replace(THRESHOLDS, small_file=1 << 16, large_file=1 << 17)
COUNT = 10_000
_WORDS = ("alpha", "beta", "gamma", "delta", "éclair")


def records() -> Iterator[Value]:
    dice = random.Random(3)
    for i in range(COUNT):
        words = " ".join(dice.choices(_WORDS, k=12))
        fields = f'id:{i},host:"host-{dice.randrange(40)}",status:{dice.choice((200, 404, 500))},took:{i / 100}'
        yield parse_value(f'{{{fields},msg:"{words} {i}",client:"10.0.0.{dice.randrange(256)}"}}')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of each format, and one of mixed shapes."""
    folder = tmp_path_factory.mktemp("files")
    values = list(records())
    for name in FORMATS:
        with (folder / f"log.{name}").open("wb") as out:
            writer = registry.by_name(name).load_writer()(out, WriteOptions(zng_compress=False))
            for value in values:
                writer.write(value)
            writer.close()
    return folder


@pytest.fixture(autouse=True)
def columns_of_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_scans, "THRESHOLDS", LOW)


def answers(program: str, path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> list[str]:
    """The values that come out, and the error after them."""
    monkeypatch.setenv("SHOAL_ENGINE", engine)
    lines = []
    try:
        for value in shoal.query(program, path):
            lines.append(format_value(value))
    except ShoalError as e:
        lines.append(str(e))
    return lines


@pytest.mark.parametrize("name", FORMATS)
def test_large_files_of_every_format_have_the_answers_of_the_interpreter(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / f"log.{name}"
    assert path.stat().st_size > LOW.large_file
    for program in PROGRAMS:
        assert answers(program, path, monkeypatch, "auto") == answers(program, path, monkeypatch, "interp"), program


@pytest.mark.parametrize("name", ["ndjson", "zng", "csv"])
@pytest.mark.parametrize("program", ["count() by host", "id%4000==7", "id<3"])
def test_a_malformed_file_gives_what_is_before_the_error_and_the_same_error(
    name: str, program: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (folder / f"log.{name}").read_bytes()
    bad = {"ndjson": b'{"id":3,\n', "zng": data[-2000:-1000] + b"\xff", "csv": b'1,"x"y\n'}[name]
    path = tmp_path / f"log.{name}"
    path.write_bytes(data + bad + (data if name == "ndjson" else b""))
    lines = answers(program, path, monkeypatch, "auto")
    assert lines[-1].startswith(str(path))
    assert lines == answers(program, path, monkeypatch, "interp")


def test_several_files_are_read_one_after_the_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [folder / "log.ndjson", folder / "log.zng", folder / "log.zson"]
    monkeypatch.setenv("SHOAL_ENGINE", "interp")
    right = shoal.query("count() by host", paths).to_zson()
    monkeypatch.setenv("SHOAL_ENGINE", "auto")
    assert shoal.query("count() by host", paths).to_zson() == right


def first(program: plan.Program) -> plan.Op:
    return program.body[0]


def test_small_files_and_other_inputs_stay_with_the_interpreter(folder: Path, tmp_path: Path) -> None:
    program = compile_program("count() by host", evaluate)
    large, small = str(folder / "log.zng"), tmp_path / "small.zng"
    small.write_bytes(b"\xff")

    def planned(*paths: str) -> plan.Op:
        return first(with_inputs(program, paths, "auto", ReadOptions()))

    assert isinstance(planned(large), plan.Physical)
    assert isinstance(planned(large, str(small)), plan.Physical)
    for paths in (
        (),
        (str(small),),
        ("-",),
        (large, "-"),
        (large, "http://localhost/x"),
        (str(folder),),
        (large, "none"),
    ):
        assert isinstance(planned(*paths), plan.DefaultScan)


def test_files_that_a_program_names_are_read_in_columns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "log.ndjson"
    text = f"file {path} | count() by host | join ( file {path} | id < 3 ) on host=host id | sort host, id"
    program = with_files(compile_program(text, evaluate), ReadOptions())
    fork = program.body[1]
    assert isinstance(first(program), plan.Physical) or isinstance(fork, plan.Fork)
    monkeypatch.setenv("SHOAL_ENGINE", "interp")
    right = shoal.query(text).to_zson()
    monkeypatch.setenv("SHOAL_ENGINE", "auto")
    assert right.count("\n") >= 2
    assert shoal.query(text).to_zson() == right


def test_statistics_count_what_the_interpreter_reads(folder: Path) -> None:
    results = shoal.query("status==404 | count()", folder / "log.zng", statistics=True).hold()
    assert results.statistics.records_read == COUNT


def test_a_small_file_loads_neither_numpy_nor_arrow(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text('{"a":1}\n' * 100)
    code = (
        f"import sys, shoal; print(shoal.query('a==1 | count() by a', {str(path)!r}).to_zson().strip());"
        "print({'numpy', 'pyarrow', 'duckdb', 'sqlglot'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["{a:1,count:100(uint64)}", "set()"]


def test_a_large_file_of_few_distinct_values_needs_no_other_engine(folder: Path) -> None:
    assert (folder / "log.zng").stat().st_size > THRESHOLDS.small_file
    path = str(folder / "log.zng")
    code = (
        f"import sys, shoal; print(shoal.query('took>50 | count() by host | count()', {path!r}).one());"
        "print({'numpy', 'duckdb', 'sqlglot'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["{'numpy'}"]
