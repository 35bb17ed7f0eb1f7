"""The package and the libraries that travel to executors."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from shoal.engines.spark import packing, shipping
from shoal.errors import InvalidInput, StorageFailure
from shoal.testing.spark_cluster import bare_python
from shoal.version import VERSION


def test_the_package_is_imported_from_its_zip_without_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_CACHE", str(tmp_path))
    shipping.package.cache_clear()
    archive = shipping.package()
    assert archive.name.startswith(f"shoal-{VERSION}-")
    assert shipping.package() is archive
    names = set(zipfile.ZipFile(archive).namelist())
    assert {"shoal/version.py", "shoal/version.pyc", "shoal/engines/spark/log4j2.properties"} <= names
    program = f"import sys; sys.path.insert(0, {str(archive)!r}); import shoal.ids; print(shoal.ids.__file__)"
    out = subprocess.run([bare_python(), "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == f"{archive}/shoal/ids.pyc"
    shipping.package.cache_clear()


def test_a_worker_knows_the_version_of_what_came_with_a_job() -> None:
    program = """
import pickle, sys
from pyspark import cloudpickle
from shoal.engines.spark import worker_entry
cloudpickle.register_pickle_by_value(worker_entry)
print(worker_entry._version("jobs/shoal-1.2.3-0123456789abcdef.zip/shoal/__init__.pyc"))
function = pickle.loads(cloudpickle.dumps(worker_entry.on_rows(None, ())))
print(list(function(0, [1, 2])), function.__globals__ is worker_entry.__dict__)
"""
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == ["1.2.3", "[1, 2] False"]


def test_libraries_are_named_for_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_SPARK_LIBRARIES", raising=False)
    assert shipping.settings() == {}
    monkeypatch.setenv("SHOAL_SPARK_LIBRARIES", "s3a://bucket/libraries.zip")
    assert shipping.settings()["spark.archives"] == "s3a://bucket/libraries.zip#shoal_libraries"
    monkeypatch.setenv("SHOAL_SPARK_LIBRARIES", str(tmp_path / "nosuch.zip"))
    with pytest.raises(InvalidInput, match=r"there is no file \S+/nosuch.zip \(shoal spark pack writes one\)"):
        shipping.settings()


def test_the_archive_has_what_tasks_import_and_no_spark(tmp_path: Path) -> None:
    libraries = packing.pack(tmp_path / "libraries.zip")
    names = {line.split()[0] for line in libraries}
    assert {"pyarrow", "duckdb", "numpy", "obstore", "sqlglot", "google-re2"} <= names
    assert not names & {"pyspark", "py4j", "shoal", "pytest"}
    files = zipfile.ZipFile(tmp_path / "libraries.zip").namelist()
    assert any(name.startswith("pyarrow/lib.") for name in files)
    assert not [name for name in files if name.endswith(".pyc") or "/tests/" in name or ".." in name]
    with pytest.raises(StorageFailure, match=r"nosuch/libraries\.zip: no such file or directory"):
        packing.pack(tmp_path / "nosuch" / "libraries.zip")
