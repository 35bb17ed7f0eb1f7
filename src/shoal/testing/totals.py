"""Count, average, sum, least and greatest of every numeric column of a table, by each engine and library.

DuckDB's totals of the source file are the right ones: what a pool makes of a file must not change them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from shoal.api.lake import Lake

Totals = dict[str, list[Any]]
"""Five numbers by the name of the column."""
_AGGREGATES = ("count", "avg", "sum", "min", "max")
_NUMERIC = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_CLOSE = 1e-9
"""Engines add floats in different orders."""


def of_file(path: Path, null: str = "") -> Totals:
    """Those of a file of CSV or JSON, by DuckDB; `null` stands for nothing in CSV."""
    db = duckdb.connect()
    source = "read_json($path)" if path.suffix in (".json", ".ndjson") else "read_csv($path, nullstr=['', $null])"
    given = {"path": str(path)} if "json" in source else {"path": str(path), "null": null}

    def ask(text: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = db.execute(text.replace("TABLE", source), given).fetchall()
        return rows

    return _totals([(str(name), str(typ)) for name, typ, *_ in ask("describe from TABLE")], ask)


def of_statements(lake: Lake, pool: str, engine: str | None = None) -> Totals:
    """Those of a pool, by SQL."""

    def ask(text: str) -> list[tuple[Any, ...]]:
        table = lake.sql(text.replace("TABLE", f'"{pool}"'), engine=engine).to_arrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    columns = lake.sql(f'describe "{pool}"').to_list()
    return _totals([(column["column_name"], column["column_type"]) for column in columns], ask)


def of_polars(lake: Lake, pool: str) -> Totals:
    """Those of a pool as a data frame."""
    frame = lake.query(f"from '{pool}'").to_polars()
    numeric = frame.select(pl.selectors.numeric())
    return {
        column.name: [column.len() - column.null_count(), column.mean(), _sum(column), column.min(), column.max()]
        for column in numeric.get_columns()
    }


def of_spark(frame: Any) -> Totals:
    """Those of a DataFrame of Spark."""
    columns = [(name, typ.upper().replace("INT", "INTEGER")) for name, typ in frame.dtypes]

    def ask(text: str) -> list[tuple[Any, ...]]:
        items = text.removeprefix("select ").removesuffix(" from TABLE").replace('"', "`").split(", ")
        return [tuple(row) for row in frame.selectExpr(*items).collect()]

    return _totals(columns, ask)


def _sum(column: pl.Series) -> Any:
    """Null for nothing, as in SQL."""
    return column.sum() if column.null_count() < column.len() else None


def _totals(columns: Iterable[tuple[str, str]], ask: Callable[[str], Sequence[tuple[Any, ...]]]) -> Totals:
    names = [name for name, typ in columns if typ.lstrip("U").startswith(_NUMERIC)]
    if not names:
        return {}
    items = ", ".join(f'{aggregate}("{name}")' for name in names for aggregate in _AGGREGATES)
    [row] = ask(f"select {items} from TABLE")  # noqa: S608 - names of a test
    return {name: list(row[5 * i : 5 * i + 5]) for i, name in enumerate(names)}


def difference(right: Totals, other: Totals) -> str | None:
    """What is not the same; None if everything is."""
    if right.keys() != other.keys():
        return f"numeric columns: {sorted(right)} and {sorted(other)}"
    for name, totals in right.items():
        for aggregate, a, b in zip(_AGGREGATES, totals, other[name], strict=True):
            if (a is None) != (b is None) or (a is not None and not math.isclose(a, b, rel_tol=_CLOSE, abs_tol=_CLOSE)):
                return f"{aggregate}({name}): {a} and {b}"
    return None
