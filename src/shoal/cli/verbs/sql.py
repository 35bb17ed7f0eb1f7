"""`shoal sql`: ask a lake in SQL."""

from __future__ import annotations

from contextlib import ExitStack

from shoal.cli.command import Verb, one_word
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake import open_lake
from shoal.cli.lake_flags import LAKE_FLAGS
from shoal.cli.output import OUTPUT_FLAGS, open_writer
from shoal.cli.query_flags import print_warning

VERB = Verb(
    "sql [flags] STATEMENT",
    "run a query in SQL over the pools of a lake",
    (
        *OUTPUT_FLAGS,
        Flag("engine", str, None, "who runs it: duckdb, spark or auto (by the bytes to read)", "NAME"),
        *LAKE_FLAGS,
    ),
    'Each pool is a table by its name; "logs@main" is one at a branch, a tag, a commit or a time.\n'
    "SQL is that of DuckDB, translated for Spark. Only queries are run, and they read nothing but pools.\n"
    "`describe POOL` lists the columns and their types.",
    (
        "shoal sql -f table 'select host, count(*) from logs where status >= 500 group by host'",
        "shoal sql -z 'select count(*) from \"logs@v1\"'",
    ),
)


def run(args: Parsed) -> None:
    """Run the command."""
    statement = one_word(args, "sql: one statement is wanted, as one word (quote it)")
    with ExitStack() as stack:
        warn = None if args["q"] else print_warning
        results = stack.enter_context(open_lake(args).sql(statement, engine=args["engine"], on_warning=warn))
        writer = stack.enter_context(open_writer(args))
        for value in results:
            writer.write(value)
