"""Writes the archive of libraries that executors unpack: what tasks import, as it is installed here.

The archive has no interpreter and no Spark: executors have both. Native libraries fit one version of Python on one kind
of machine, so the executors must have the Python of the driver, which Spark demands anyway.
"""

from __future__ import annotations

import os
import re
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from shoal.errors import InvalidInput, StorageFailure

_ALSO = ("confluent-kafka", "obstore")
"""Libraries of extras that tasks import as well, if they are installed."""
_NOT_SENT = frozenset(("pyspark", "py4j", "shoal"))
"""Executors have Spark; the package travels with each job, so that it never differs from the driver's."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_UNUSED = frozenset(("tests", "test", "include", "__pycache__"))
_UNUSED_ENDINGS = (".a", ".h", ".pxd", ".pyx", ".pyc", ".pyi")


def default_name() -> str:
    """The name of an archive that says which Python it is for."""
    return f"shoal-libraries-py{sysconfig.get_python_version()}-{sysconfig.get_platform()}.zip"


def pack(target: Path) -> list[str]:
    """Write the archive; returns the libraries in it with their versions."""
    if target.suffix != ".zip":
        raise InvalidInput(f"{target}: the archive is a zip (such as {target.stem}.zip)")
    aside = target.with_name(f"{target.name}.{os.getpid()}")
    libraries = sorted(_libraries().items())
    try:
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for _, library in libraries:
                for name, path in _files(library):
                    archive.write(path, name)
        aside.replace(target)
    except OSError as e:
        aside.unlink(missing_ok=True)
        raise StorageFailure(f"{target}: {(e.strerror or str(e)).lower()}") from e
    return [f"{name} {library.version}" for name, library in libraries]


def _libraries() -> dict[str, metadata.Distribution]:
    """The distributions that Shoal needs, and those that they need."""
    found: dict[str, metadata.Distribution] = {}
    names = [*_required(metadata.distribution("shoal")), *_ALSO]
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name in found or name in _NOT_SENT:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform, or of an extra
        names += _required(found[name])
    return found


def _required(library: metadata.Distribution) -> Iterator[str]:
    """The names of what a distribution needs, without its extras."""
    for requirement in library.requires or ():
        name, marker = _NAME.match(requirement), requirement.partition(";")[2]
        if name is not None and "extra" not in marker:
            yield name[0]


def _files(library: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    for file in library.files or ():
        path = Path(str(file.locate()))
        is_used = not _UNUSED.intersection(file.parts) and file.suffix not in _UNUSED_ENDINGS
        if is_used and ".." not in file.parts and path.is_file():
            yield str(file), path
