"""Writes the result files: the machine, the versions and the tables."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.tables import Table
from shoal.engines.spark.installation import find_java, java_version

FILE = Path(__file__).parent / "RESULTS.md"
SERVICE_FILE = Path(__file__).parent / "SERVICE.md"
_PACKAGES = ("duckdb", "pyarrow", "pyspark", "deltalake", "pyiceberg")


def machine() -> str:
    """The machine and the versions of the libraries."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    languages = f"Python {platform.python_version()}, Java {java_version(find_java())}"
    return f"{os.cpu_count()} cores, {memory:.0f} GiB of memory; {languages}, {versions}"


def write(measured: Sequence[tuple[int, Sequence[Table]]]) -> None:
    """Write the results file: the tables for each number of records."""
    parts = ["# Loads, queries and compactions beside peers", _introduction()]
    for records, tables in measured:
        parts += [f"## {records:,} mixed log records", *(f"### {table}" for table in tables)]
    FILE.write_text("\n\n".join(parts) + "\n")


def write_service(tables: Sequence[Table]) -> None:
    """Write the results file of the service."""
    parts = ["# A service under load", _origin("service"), *(f"## {table}" for table in tables)]
    SERVICE_FILE.write_text("\n\n".join(parts) + "\n")


def _origin(part: str) -> str:
    today = datetime.now(UTC).date().isoformat()
    return f"Measured on {today}: {machine()}. `python -m bench {part} --write` writes this file."


def _introduction() -> str:
    return (
        f"{_origin('engines')}\n\n"
        "Everything ran side by side in one run, each measurement in its own process, and the best of\n"
        "several rounds counts. Ratios below 1 are faster. All counts of records and all answers were compared first:\n"
        "they are the same."
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
