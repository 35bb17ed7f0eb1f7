"""Six queries in two languages, and the engines that answer them. `python -m bench.questions` runs one engine on all.

Each query runs several times in a warm process, and the best time counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

import shoal
from bench import anywhere, processes
from shoal.engines.spark.session import spark_session

_LEAST, _MOST, _SECONDS = 5, 25, 4.0
"""Least and largest number of runs of a query, and the seconds to spend on it: a JVM takes a while to warm up."""
_WORD = "gamma"

Answer = list[list[Any]]
"""Rows in a fixed order."""


class Question(NamedTuple):
    """A query in both languages, and the fields whose values must be equal."""

    name: str
    ours: str
    theirs: str
    compared: tuple[str, ...]


class Answerer(NamedTuple):
    """An engine with the data: `answer` runs a query, `rows` converts its result."""

    answer: Callable[[Question], Any]
    rows: Callable[[Any], list[Any]]


QUESTIONS = (
    Question(
        "count by type",
        "count() by kind",
        "SELECT kind, count(*) AS count FROM t GROUP BY kind",
        ("kind", "count"),
    ),
    Question(
        "filter, group, top 10",
        "status >= 404 | count() by host | sort -r count, host | head 10",
        "SELECT host, count(*) AS count FROM t WHERE status >= 404 "
        "GROUP BY host ORDER BY count DESC, host DESC LIMIT 10",
        ("host", "count"),
    ),
    Question(
        "key range",
        "ts >= '2024-03-10T00' and ts < '2024-03-10T01' | count()",
        "SELECT count(*) AS count FROM t WHERE ts >= '2024-03-10T00' AND ts < '2024-03-10T01'",
        ("count",),
    ),
    Question("needle by id", "id == {needle}", "SELECT * FROM t WHERE id = {needle}", ("id", "ts", "kind")),
    Question("keyword anywhere", f"{_WORD} | count()", "SELECT count(*) AS count FROM t WHERE {anywhere}", ("count",)),
    Question(
        "time histogram",
        "count() by h:=ts[0:13]",
        "SELECT substr(ts, 1, 13) AS h, count(*) AS count FROM t GROUP BY substr(ts, 1, 13)",
        ("h", "count"),
    ),
)


def needle(records: int) -> int:
    """The id to search for."""
    return records * 7 // 9


def _shoal(engine: str) -> Callable[[str, str, int], Answerer]:
    def prepare(lake: str, pool: str, records: int) -> Answerer:
        opened = shoal.open(lake)

        def answer(question: Question) -> list[shoal.Value]:
            program = question.ours.replace("{needle}", str(needle(records)))
            return list(opened.query(f"from {pool} | {program}", engine=engine))

        return Answerer(answer, lambda values: [shoal.to_python(value) for value in values])

    return prepare


def _statement(question: Question, file: str, records: int, dialect: anywhere.Dialect) -> str:
    condition = anywhere.condition(Path(file), _WORD, dialect)
    return question.theirs.replace("{needle}", str(needle(records))).replace("{anywhere}", condition)


def _duckdb(directory: str, file: str, records: int) -> Answerer:
    path = f"{directory}/{file}"
    db = duckdb.connect()
    db.execute(f"CREATE VIEW t AS FROM '{path}'")
    statements = {question.name: _statement(question, path, records, anywhere.DUCKDB) for question in QUESTIONS}
    return Answerer(
        lambda question: db.sql(statements[question.name]).to_arrow_table(), lambda table: table.to_pylist()
    )


def _spark(directory: str, file: str, records: int) -> Answerer:
    path = f"{directory}/{file}"
    spark = spark_session()
    spark.read.parquet(path).createOrReplaceTempView("t")
    statements = {question.name: _statement(question, path, records, anywhere.SPARK) for question in QUESTIONS}
    return Answerer(
        lambda question: spark.sql(statements[question.name]).collect(), lambda rows: [row.asDict() for row in rows]
    )


ANSWERERS: dict[str, Callable[[str, str, int], Answerer]] = {
    "shoal": _shoal("duckdb"),
    "duckdb": _duckdb,
    "shoal-spark": _shoal("spark"),
    "spark": _spark,
}
"""By name: functions of a directory, the pool or file in it, and the number of records."""


def _compared(question: Question, rows: list[Any]) -> Answer:
    """The part of an answer that must be equal. A total count is a row in SQL and a plain number in Zed."""
    return sorted([row[name] for name in question.compared] if isinstance(row, dict) else [row] for row in rows)


def _best(answer: Callable[[Question], Any], question: Question) -> float:
    seconds: list[float] = []
    while len(seconds) < _LEAST or (len(seconds) < _MOST and sum(seconds) < _SECONDS):
        began = time.perf_counter()
        answer(question)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main() -> None:
    """Run all queries; reports the answers and their seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("candidate", choices=ANSWERERS)
    parser.add_argument("directory")
    parser.add_argument("name")
    parser.add_argument("records", type=int)
    args = parser.parse_args()
    answerer = ANSWERERS[args.candidate](args.directory, args.name, args.records)
    answers = {question.name: _compared(question, answerer.rows(answerer.answer(question))) for question in QUESTIONS}
    seconds = {question.name: _best(answerer.answer, question) for question in QUESTIONS}
    processes.report(answers=answers, seconds=seconds)


if __name__ == "__main__":
    main()
