"""Starting the command: help of every verb, what is loaded, how long it takes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.cli.main import VERBS
from shoal.testing.shell import Shell

HEAVY = (
    "datasketches", "duckdb", "numpy", "numpy.ma", "obstore", "pandas", "pyarrow", "pyarrow.compute", "pyspark",
    "sqlglot", "urllib3", "yaml",
)  # fmt: skip
"""Modules that take long to import: each is there for those who need it."""
METADATA = [["ls"], ["ls", "logs"], ["log"], ["branch"], ["tag"], ["info"], ["use"]]
SMALL_QUERIES = [
    ["query", "-z", "head 1"],
    ["query", "-z", "status == 404 and host == 'web-1'"],
    ["query", "-z", "count(), avg(took) by host | sort host"],
]
SMALL_LOAD = ["load", "-q", "one.ndjson"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help_with_its_flags_and_an_example(verb: str, bare: Shell) -> None:
    text = bare.run(verb, "-h")
    assert text == bare.run(verb, "-help") == bare.run("help", verb) == bare.run(verb, "--help", "x", "y")
    module = VERBS[verb]
    assert text.startswith(f"shoal {verb}")
    assert f"\n{module.VERB.summary}\n" in text
    for flag in module.VERB.flags:
        assert f"\n  -{flag.name} " in text
    assert verb == "version" or f"shoal {verb}" in text.partition("examples:")[2]


def test_help_lists_all_commands(bare: Shell) -> None:
    text = bare.run()
    assert text == bare.run("-h") == bare.run("help") == bare.run("-help")
    assert [line.split()[0] for line in text.split("\n\n")[2].split("\n")] == list(VERBS)


MOST_MODULES = 400
OTHERS = [["query", "-z", "from :pools"], ["vacuum", "-dryrun"], ["manage"]]


@pytest.mark.parametrize(
    "argv, most", [*((argv, MOST_MODULES) for argv in METADATA), *((argv, math.inf) for argv in OTHERS)]
)
def test_commands_of_the_lake_load_no_heavy_library_and_few_modules(argv: list[str], most: float, shell: Shell) -> None:
    loaded = loaded_modules(argv)
    assert [name for name in HEAVY if name in loaded] == []
    assert "shoal.cli.main" in loaded
    assert len(loaded) <= most


@pytest.mark.parametrize("argv", [*SMALL_QUERIES, SMALL_LOAD], ids=" ".join)
def test_small_queries_and_loads_import_what_reads_and_writes_parquet_and_no_more(
    argv: list[str], small_pool: Shell
) -> None:
    assert [name for name in HEAVY if name in loaded_modules(argv)] == ["numpy", "pyarrow"]


def test_a_statement_imports_what_runs_it(small_pool: Shell) -> None:
    loaded = loaded_modules(["sql", "-z", "select count(*) from logs"])
    assert [name for name in HEAVY if name in loaded] == ["duckdb", "numpy", "pyarrow", "pyarrow.compute", "sqlglot"]


REFERENCE = (
    "import asyncio, email.mime.text, http.client, unittest, decimal, xml.dom.minidom, sqlite3, argparse, tarfile, "
    "multiprocessing.pool"
)
REFERENCE_SECONDS = 0.105
"""Processor time of the imports above, on the machine that the aims are for. Another one may take as much longer for a
command as it takes longer for these."""
METADATA_SECONDS, QUERY_SECONDS, LOAD_SECONDS = 0.2, 0.3, 0.25


@pytest.fixture
def small_pool(shell: Shell) -> Shell:
    """A lake whose pool has a few hundred records of several shapes, and a file with one record."""
    records = [
        {"ts": i, "host": f"web-{i % 7}", "status": [200, 404, "lost"][i % 3], "took": i / 7} for i in range(300)
    ] + [{"ts": i, "user": {"name": f"u{i}", "tags": ["a", "b"][: i % 3]}} for i in range(50)]
    Path("many.ndjson").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("one.ndjson").write_text('{"ts":1,"host":"web-1","user":{"name":"u","tags":[]}}\n')
    shell.run("load", "-q", "many.ndjson")
    return shell


@pytest.fixture(scope="module")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for what the first run compiles."""
    return tmp_path_factory.mktemp("bytecode")


@pytest.mark.parametrize("argv", METADATA, ids=" ".join)
def test_metadata_is_answered_at_once_from_cold(argv: list[str], shell: Shell, bytecode: Path) -> None:
    check_start(argv, METADATA_SECONDS, bytecode)


@pytest.mark.parametrize("argv", SMALL_QUERIES, ids=" ".join)
def test_a_small_query_is_answered_at_once_from_cold(argv: list[str], small_pool: Shell, bytecode: Path) -> None:
    check_start(argv, QUERY_SECONDS, bytecode)


def test_a_small_load_is_done_at_once_from_cold(small_pool: Shell, bytecode: Path) -> None:
    check_start(SMALL_LOAD, LOAD_SECONDS, bytecode)


def check_start(argv: list[str], seconds: float, bytecode: Path) -> None:
    """Fail if a command takes more than these seconds of processor time, where the reference takes its own."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    command, reference = [sys.executable, "-m", "shoal", *argv], [sys.executable, "-c", REFERENCE]
    seconds_taken(command, environment), seconds_taken(reference, environment)  # the first run compiles
    largest_ratio = seconds / REFERENCE_SECONDS
    runs: list[tuple[float, float]] = []
    while len(runs) < 8:
        runs.append((seconds_taken(command, environment), seconds_taken(reference, environment)))
        ours, usual = (min(column) for column in zip(*runs, strict=True))
        if ours < largest_ratio * usual:
            return
    pytest.fail(f"a cold start takes more than {largest_ratio:.2f} times as long as the reference: {runs}")


def test_zq_loads_no_code_of_a_lake(tmp_path: Path) -> None:
    file = tmp_path / "a.zson"
    file.write_text("{a:1}")
    loaded = loaded_modules(["zq", "-z", "count()", str(file)])
    planner = {"shoal.planner", *(f"shoal.planner.{name}" for name in ("engine_choice", "file_scans", "files"))}
    assert planner == {m for m in loaded if m.startswith("shoal.planner")}
    assert [] == [m for m in loaded if m.startswith(("shoal.lake", "shoal.local", "shoal.frames", "shoal.access"))]


def test_a_query_of_files_loads_no_code_of_a_lake() -> None:
    code = "import sys, shoal; assert shoal.query('count()', [1, 2]).to_list() == [2]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert [] == [m for m in done.stdout.split() if m.startswith(("shoal.lake", "shoal.local", "shoal.planner.scan"))]


def loaded_modules(argv: list[str]) -> list[str]:
    """The modules that a command has loaded when it ends well."""
    code = "import sys; from shoal.__main__ import run; assert run() == 0; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, check=True, text=True)
    return done.stdout.splitlines()[-1].split()


def seconds_taken(command: list[str], environment: dict[str, str]) -> float:
    """Processor time of a command: wall time depends on what else the machine does."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime
