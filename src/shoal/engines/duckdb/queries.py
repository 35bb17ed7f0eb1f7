"""Queries over the files and tables of data objects, by DuckDB.

Measured with DuckDB 2.0, by sorting, grouping and joining three million rows: `memory_limit` and
`max_temp_directory_size` hold, and belong to a database, not to a connection. `operator_memory_limit`, which belongs to
a connection, limits nothing. So a query with a memory limit has a database of its own. State that cannot go to disk,
such as that of `list`, fails beyond the limit.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from pathlib import Path
from tempfile import gettempdir
from weakref import WeakKeyDictionary, finalize

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from shoal.engines.duckdb.formulas import Functions
from shoal.engines.duckdb.statement_job import ENGINE_ERRORS
from shoal.engines.file_damage import damage_to, unless_changed, without_paths
from shoal.engines.physical import Source
from shoal.engines.sql import build
from shoal.engines.sql.formulas import Computed
from shoal.engines.sql.nodes import NotColumnar
from shoal.engines.sql.operators import filtered
from shoal.engines.sql.relations import Item, scan_relation
from shoal.engines.stopping import DISK_PER_MEMORY, Stop, current
from shoal.errors import ShoalError, StorageFailure
from shoal.formats.columns.batches import Rows
from shoal.lang import plan
from shoal.lang.recursion import deep_frames
from shoal.lang.walk import has_aggregate
from shoal.storage.verified_files import VerifiedFile

_OUT_OF_MEMORY = "Out of Memory Error"
_numbers = count()


def memory_settings(memory: int | None) -> dict[str, str]:
    """The configuration of a new database; None is all the memory that DuckDB takes by itself."""
    # Two databases in one directory would write the same files, and without one they go where the user stands.
    settings = {"temp_directory": str(Path(gettempdir()) / f"shoal-{os.getpid()}-{next(_numbers)}")}
    if memory is not None:
        settings |= {"memory_limit": f"{memory}B", "max_temp_directory_size": f"{DISK_PER_MEMORY * memory}B"}
    return settings


def out_of_memory(stop: Stop, text: str) -> ShoalError | None:
    """The error of a query that needs more memory than there is, by what DuckDB says; None for another error."""
    if not text.startswith(_OUT_OF_MEMORY):
        return None
    if stop.memory is not None:
        return stop.out_of_memory()
    return StorageFailure(f"DuckDB: {text.splitlines()[0]}")


_BATCH_ROWS = 8192
_DIALECT = "duckdb"
_LONGEST = 300
"""Characters of a message of DuckDB, which may repeat a whole query."""
_PLACE = "place"
"""With the number of a group it stands for the number of an object, by its index among those that are read."""
_lock = threading.Lock()
_database: list[duckdb.DuckDBPyConnection] = []
_owned: WeakKeyDictionary[Stop, duckdb.DuckDBPyConnection] = WeakKeyDictionary()
_idle: dict[int, deque[duckdb.DuckDBPyConnection]] = {}
_MOST_IDLE = 4


def connection() -> duckdb.DuckDBPyConnection:
    """A connection to a database that holds nothing: that of this process, or one with the memory that a query has."""
    stop = current()
    with _lock:
        if stop.memory is not None:
            return _limited(stop, stop.memory).cursor()
        if not _database:
            _database.append(_open())
        return _database[0].cursor()


def _open(memory: int | None = None) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect(":memory:", config=memory_settings(memory))
    database.execute("SET preserve_insertion_order = true")
    database.execute("SET GLOBAL parquet_metadata_cache = true")
    database.execute("SET arrow_large_buffer_size = false")
    return database


def _limited(stop: Stop, memory: int) -> duckdb.DuckDBPyConnection:
    """The database of one query, which the next query with as much memory has after it."""
    idle = _idle.setdefault(memory, deque(maxlen=_MOST_IDLE))
    database = _owned.get(stop)
    if database is None:
        database = _owned[stop] = idle.pop() if idle else _open(memory)
        finalize(stop, idle.append, database).atexit = False
    return database


def use_threads(count: int) -> None:
    """How many threads a query may have from here on, in this process."""
    connection().execute(f"SET GLOBAL threads = {count}")


class Group:
    """Sources of the same layout."""

    def __init__(self, number: int, sources: list[Source]) -> None:
        self.number = number
        self.sources = sources
        self.layout = sources[0].layout
        self.is_file = sources[0].file is not None
        self.is_masked = sources[0].hidden is not None
        present = sorted({i for source in sources for i in source.present})
        order = (
            Item(build.call(f"{_PLACE}{number}", build.column("file_index"))),
            Item(build.column("file_row_number")),
        )
        table = exp.to_table(f"t{number}")
        self.relation = scan_relation(table, self.layout, present, with_nulls=not self.is_file, order=order)


Tables = dict[int, tuple[Group, list[Source]]]
"""The tables that a query may read, by their numbers: groups, and those of their sources that it needs."""


def text_of(
    query: exp.Select,
    tables: Mapping[str, exp.Expr] | None = None,
    indexes: Mapping[str, Callable[[exp.Expr], exp.Expr]] | None = None,
    name_of: Callable[[Computed], str] | None = None,
) -> str:
    """A query as the engine reads it, once it is known what its tables and formulas are called there."""

    def filled(node: exp.Expr) -> exp.Expr:
        if isinstance(node, Computed):
            return build.call(name_of(node) if name_of else node.name, *node.expressions)
        if indexes and isinstance(node, exp.Anonymous) and node.name in indexes:
            return indexes[node.name](node.expressions[0])
        return tables.get(node.name, node) if tables and isinstance(node, exp.Table) else node

    with deep_frames():
        return query.transform(filled).sql(_DIALECT)


def query_batches(query: exp.Select, tables: Tables) -> Iterator[pa.RecordBatch]:
    """The batches that a query gives, as they come."""
    con, stop = connection(), current()
    functions = Functions(con)
    files: list[VerifiedFile] = []
    try:
        with stop.cancelling(con.interrupt):
            text = _statement(con, query, tables, functions, files)
            stop.check()
            yield from unless_changed(files, stop.checked(con.sql(text).to_arrow_reader(_BATCH_ROWS)))
    except Exception as e:
        stop.check()
        raise functions.failure or _failure(stop, e, files) from None
    finally:
        functions.drop()
        con.close()


def _failure(stop: Stop, error: Exception, files: Sequence[VerifiedFile]) -> Exception:
    """What a query fails with: damage, if there is any, which DuckDB may report as anything else."""
    if not isinstance(error, ENGINE_ERRORS):
        return error
    failure = damage_to(files) or out_of_memory(stop, str(error))
    return failure or StorageFailure(f"DuckDB: {without_paths(str(error), files)[:_LONGEST]}")


@dataclass(slots=True)
class _Known:
    """What is kept of a query that was asked before."""

    read: tuple[int, ...]
    """The tables that it reads."""
    is_fixed: bool
    """Whether its text follows from the files that it reads."""
    texts: dict[tuple[tuple[str, ...], ...], str] = field(default_factory=dict)


_KNOWN, _MOST_TEXTS = "known", 4


def _statement(
    con: duckdb.DuckDBPyConnection,
    query: exp.Select,
    tables: Tables,
    functions: Functions,
    verified: list[VerifiedFile],
) -> str:
    """The text of a query over some sources. The files that it reads are verified, and added to `verified`."""
    cached = query.meta.get(_KNOWN)
    if cached is None:
        read = sorted({int(table.name[1:]) for table in query.find_all(exp.Table) if table.name})
        is_fixed = query.find(Computed) is None and all(
            tables[n][0].is_file and not tables[n][0].is_masked for n in read
        )
        cached = query.meta[_KNOWN] = _Known(tuple(read), is_fixed)
    # Files are asked for each time, since asking verifies their checksums.
    by_table = [[s.file() for s in tables[n][1] if s.file is not None] for n in cached.read]
    verified.extend(chain.from_iterable(by_table))
    files = tuple(tuple(file.path for file in of_table) for of_table in by_table)
    if cached.is_fixed and files in cached.texts:
        return str(cached.texts[files])
    exprs = {f"t{n}": _source(con, n, *tables[n], paths) for n, paths in zip(cached.read, files, strict=True)}
    indexes = {f"{_PLACE}{n}": partial(_place, tables[n][1]) for n in cached.read}
    text = text_of(query, exprs, indexes, functions.name)
    if cached.is_fixed and len(cached.texts) < _MOST_TEXTS:
        cached.texts[files] = text
    return text


def _place(sources: list[Source], index: exp.Expr) -> exp.Expr:
    """The number of the object that a row is in."""
    return build.call(
        "list_extract",
        exp.Array(expressions=[build.integer(s.number) for s in sources]),
        build.cast(build.binary("+", index, build.integer(1)), "BIGINT"),
    )


def _source(
    con: duckdb.DuckDBPyConnection, number: int, group: Group, sources: list[Source], files: tuple[str, ...]
) -> exp.Expr:
    """What stands for a group in a query: its files, or a table that is registered."""
    if group.is_masked:
        con.register(f"h{number}", hidden_table(sources))
        return without_hidden(parquet_table(files), f"h{number}")
    if group.is_file:
        return parquet_table(files)
    con.register(f"t{number}", _table(sources))
    return exp.to_table(f"t{number}")


def by_kind(sources: Sequence[Source]) -> list[list[Source]]:
    """Sources that one query reads as one table, together."""
    kinds: dict[Hashable, list[Source]] = {}
    for source in sources:
        kinds.setdefault(source.kind, []).append(source)
    return list(kinds.values())


def hidden_table(sources: Sequence[Source]) -> pa.Table:
    """The rows of files that do not count: of which file, by its index, and which."""
    rows = [source.hidden() for source in sources if source.hidden is not None]
    files = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    return pa.table({"hidden_file": files, "hidden_row": np.concatenate(rows)})


def without_hidden(files: exp.Table, hidden: str) -> exp.Subquery:
    """Files as a table without the rows that another table lists."""
    places = (("hidden_file", "file_index"), ("hidden_row", "file_row_number"))
    listed = [exp.EQ(this=build.column(name), expression=build.column(place)) for name, place in places]
    inner = exp.select(exp.Star(), build.column("file_index"), build.column("file_row_number")).from_(files)
    return inner.join(exp.to_table(hidden), on=exp.and_(*listed), join_type="ANTI").subquery()


def parquet_table(paths: Sequence[str]) -> exp.Table:
    """Files in column form, as a table."""
    return exp.Table(this=build.call("read_parquet", exp.Array(expressions=[build.text(path) for path in paths])))


def _table(sources: list[Source]) -> pa.Table:
    tables = []
    for number, source in enumerate(sources):
        assert source.table is not None
        table = source.table()
        table = table.append_column("file_index", pa.array(np.full(len(table), number, np.int64)))
        tables.append(table.append_column("file_row_number", pa.array(np.arange(len(table), dtype=np.int64))))
    return pa.concat_tables(tables)


def matching_rows(source: Source, condition: plan.Expr, funcs: Sequence[plan.Func]) -> Rows | None:
    """The numbers of the rows, ascending; None if the condition has no columnar form."""
    if has_aggregate(condition, funcs):
        return None
    group = Group(0, [source])
    try:
        relation = filtered(group.relation, condition)
    except NotColumnar:
        return None
    if not relation.cases:
        return np.zeros(0, np.int64)
    query = relation.select([("row", build.column("file_row_number"))])
    batches = list(query_batches(query, {0: (group, [source])}))
    rows: Rows = np.sort(pa.Table.from_batches(batches).column("row").to_numpy()) if batches else np.zeros(0, np.int64)
    return rows.astype(np.int64)
