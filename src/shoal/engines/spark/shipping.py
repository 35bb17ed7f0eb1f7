"""The package of Shoal travels with the jobs of a cluster: a zip of its modules, sent once to each session.

Libraries with native code cannot be imported from a zip on the path. Executors have them, or get the archive that
`SHOAL_SPARK_LIBRARIES` names, and unpack it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import py_compile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

from shoal.engines.spark import worker_entry
from shoal.engines.spark.failures import translating
from shoal.engines.spark.installation import cache_directory, scratch_directory
from shoal.engines.spark.worker_entry import LIBRARIES_FOLDER, Shipment
from shoal.errors import InvalidInput
from shoal.version import VERSION

TASK_MODULES = (
    "datasketches",
    "duckdb",
    "fastavro",
    "lz4",
    "numpy",
    "orjson",
    "pyarrow",
    "pyroaring",
    "re2",
    "sqlglot",
    "zstandard",
)
"""The libraries that tasks import. A task that needs that of a cloud store reports it missing by itself."""
SHIPMENT: Shipment = (VERSION, TASK_MODULES)
"""What a worker has to have."""
LIBRARY_PATH = f"{LIBRARIES_FOLDER}:../{LIBRARIES_FOLDER}"
"""Where workers find the unpacked archive: where their executor works; of Spark Connect, in a folder below that."""

_sent: WeakSet[Any] = WeakSet()
"""The sessions, or their contexts, that have the package."""


def libraries() -> str | None:
    """The archive with libraries for executors, as `spark.archives` takes it; None if none is set."""
    path = os.environ.get("SHOAL_SPARK_LIBRARIES")
    if not path:
        return None
    if "://" not in path:
        if not os.path.isfile(path):
            raise InvalidInput(f"SHOAL_SPARK_LIBRARIES: there is no file {path} (shoal spark pack writes one)")
        path = os.path.abspath(path)
    return f"{path}#{LIBRARIES_FOLDER}"


def settings() -> dict[str, str]:
    """What the configuration of a session that we start needs for these libraries to arrive."""
    archive = libraries()
    if archive is None:
        return {}
    return {"spark.archives": archive, "spark.executorEnv.PYTHONPATH": LIBRARY_PATH}


def send_package(spark: Any) -> None:
    """Send the package to the executors of a session, once. Later tasks find it on their path."""
    context = getattr(spark, "_sc", None)
    target = spark if context is None else context
    if target in _sent:
        return
    _by_value()
    with translating():
        if context is None:
            spark.addArtifacts(str(package()), pyfile=True)
        else:
            context.addPyFile(str(package()))
    _sent.add(target)


@cache
def _by_value() -> None:
    """The functions of this module go to workers as they are: those cannot import it before it has run."""
    from pyspark import cloudpickle  # noqa: PLC0415 - loaded by now

    cloudpickle.register_pickle_by_value(worker_entry)


@cache
def package() -> Path:
    """A zip of the modules of this package, in the cache under a name that says what is in it."""
    root = Path(__file__).parents[2]
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for path in files:
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    name = f"shoal-{VERSION}-{digest.hexdigest()[:16]}.zip"
    for directory in (cache_directory(), scratch_directory()):
        archive = directory / name
        try:
            if not archive.exists():
                directory.mkdir(parents=True, exist_ok=True)
                _write(archive, root, files)
        except OSError:
            continue
        return archive
    raise InvalidInput(f"the package for executors cannot be written to {cache_directory()} (set SHOAL_CACHE)")


def _write(archive: Path, root: Path, files: list[Path]) -> None:
    """Write a zip with the bytecode beside each module: workers would have to compile them otherwise."""
    aside = archive.with_name(f"{archive.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as out:
        compiled = os.path.join(folder, "compiled")
        for path in files:
            inner = path.relative_to(root.parent)
            out.write(path, inner)
            if path.suffix == ".py":
                mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
                py_compile.compile(str(path), compiled, dfile=str(inner), doraise=True, invalidation_mode=mode)
                out.write(compiled, inner.with_suffix(".pyc"))
    aside.replace(archive)
