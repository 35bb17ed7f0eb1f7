"""`shoal sql`: run a statement in SQL over a lake."""

from __future__ import annotations

from contextlib import ExitStack

from shoal.cli.command import Verb, one_word
from shoal.cli.flags import Flag, Parsed
from shoal.cli.lake import open_lake, read_note
from shoal.cli.lake_flags import COMMIT_FLAGS, LAKE_FLAGS
from shoal.cli.output import OUTPUT_FLAGS, open_writer
from shoal.cli.query_flags import print_warning

VERB = Verb(
    "sql [flags] STATEMENT",
    "run a statement in SQL over the pools of a lake",
    (
        *OUTPUT_FLAGS,
        Flag("engine", ("auto", "duckdb", "spark"), None, "engine that runs it; auto chooses by the bytes to read"),
        *COMMIT_FLAGS,
        *LAKE_FLAGS,
    ),
    'Each pool is a table; "logs@v1" is the pool at a branch, tag, commit or time. The dialect is that of DuckDB, and\n'
    "is translated for Spark. Statements read only pools. INSERT, UPDATE, DELETE, MERGE INTO and CREATE TABLE AS make\n"
    "one commit each. `describe POOL` lists the columns and their types.",
    (
        "shoal sql -f table 'select host, count(*) from logs where status >= 500 group by host'",
        "shoal sql -z 'select count(*) from \"logs@v1\"'",
        "shoal sql -z \"update logs set host = 'web-9' where host = 'web-1'\"",
    ),
)


def run(args: Parsed) -> None:
    """Run the command."""
    statement = one_word(args, "sql: give one statement as one argument (quote it)")
    note = read_note(args)
    with ExitStack() as stack:
        warn = None if args["q"] else print_warning
        results = stack.enter_context(open_lake(args).sql(statement, engine=args["engine"], on_warning=warn, **note))
        writer = stack.enter_context(open_writer(args))
        for value in results:
            writer.write(value)
