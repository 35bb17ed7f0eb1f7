"""Writes DataFrames of Spark to a pool: `df.write.format("shoal").option("lake", uri).mode("append").save("logs")`.

    lake       where the lake is
    path       the pool, or pool@branch; `save` gives it
    where      with mode `overwrite`: a condition; the records that meet it are replaced, instead of all
    author, message

Tasks write data objects. The driver commits all of them at once, or none: tasks that were tried again, or failed, leave
objects that nothing refers to. Importing this module imports pyspark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from shoal.access.records import default_author
from shoal.api.commitish import parse_head
from shoal.errors import InvalidInput
from shoal.formats.arrow.reader import batches
from shoal.lake import keyed_changes, rewriting, sessions
from shoal.lake.actions import Patch, patch_of
from shoal.lake.changes import with_message
from shoal.lake.commits import Note
from shoal.lake.lake import open_at
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.lake.sessions import Session
from shoal.planner.pool_partitions import with_partitions
from shoal.planner.predicates import parse_predicate


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    """The data objects of a task, pickled: Spark has pickles of its own, which do not intern types."""

    objects: bytes


class ShoalWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a DataFrame as one commit. It is made once, and copied to the tasks and back."""

    def __init__(self, options: Mapping[str, str], overwrite: bool) -> None:
        self._lake, path = _required(options, "lake"), _required(options, "path")
        self._pool, branch = parse_head(path)
        self._where = options.get("where")
        self._note = Note(options.get("author") or default_author(), options.get("message", ""))
        self._overwrite = overwrite
        self._upserts = options.get("upsert", "false").lower() == "true"
        if self._where is not None and not overwrite:
            raise InvalidInput('the option where goes with mode("overwrite") alone')
        if self._where is not None:
            parse_predicate(self._where)
        lake = open_at(self._lake)
        lake.require_writable()
        pool = lake.pool(self._pool)
        if self._upserts and not pool.config.settings.primary:
            raise InvalidInput(f"{self._pool}: an upsert needs a primary key (shoal create -primary)")
        self._session = pickle.dumps(sessions.begin(pool, branch))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task."""
        pieces = (piece for batch in iterator for piece in batches(batch))
        return Written(pickle.dumps(self._opened().writer().write_all(pieces)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks have written. Without rows and without something to replace there is no commit."""
        pool = self._opened()
        session = sessions.stage(pickle.loads(self._session), self._removed(pool))  # noqa: S301 - our own
        session = sessions.stage(session, self._added(pool, session, _objects(messages)))
        if not session.staged.is_empty:
            note = with_message(self._note, rewriting.describe_patch(session.staged))
            sessions.commit(pool, session, note)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks have written if another task failed.

        Spark also calls this after a commit that failed, whose outcome may be unknown: then all tasks have sent their
        messages, and the objects stay, for a vacuum.
        """
        if any(message is None for message in messages):
            rewriting.remove(self._opened(), _objects(messages))

    def _added(self, pool: Pool, session: Session, objects: list[DataObject]) -> Patch:
        """What the new rows are, to a transaction that has removed what they replace."""
        if not objects or not pool.config.settings.primary:
            return patch_of(objects)
        view = sessions.view(pool, session)
        if not self._upserts:
            return keyed_changes.adding(pool, session.branch, objects)(view)
        index = keyed_changes.index_of(pool, objects)
        keyed_changes.require_distinct(index)
        return keyed_changes.replacing(pool, view, objects, index)

    def _removed(self, pool: Pool) -> Patch:
        """What the new rows replace."""
        base = pickle.loads(self._session).base  # noqa: S301 - our own
        if not self._overwrite:
            return patch_of()
        if self._where is None:
            return patch_of(deletes=list(pool.snapshot(base).objects()))
        return rewriting.without(pool, base, parse_predicate(self._where))

    def _opened(self) -> Pool:
        return with_partitions(open_at(self._lake).pool(self._pool))


def _objects(messages: list[WriterCommitMessage | None]) -> list[DataObject]:
    written = [message.objects for message in messages if isinstance(message, Written)]
    return [o for objects in written for o in pickle.loads(objects)]  # noqa: S301 - from our tasks


def _required(options: Mapping[str, str], name: str) -> str:
    option = options.get(name)
    if not option:
        way = 'df.write.format("shoal").option("lake", uri).mode("append").save("pool")'
        raise InvalidInput(f"the source shoal has no option {name} (such as {way})")
    return option
