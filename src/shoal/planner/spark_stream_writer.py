"""Writes streams of Spark to a pool: `df.writeStream.format("shoal").option("lake", uri).start("logs")`.

    lake       where the lake is
    path       the pool, or pool@branch; `start` gives it
    stream     a name for the stream, instead of the id of its query
    author, message

A batch is one commit, or none if it is empty. The id of its operation is made of the id of the query, which is in the
checkpoint, and of the number of the batch. So a batch that Spark runs again, because its driver ended before it had
noted the batch as done, is committed once. Importing this module imports pyspark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from shoal.access.records import default_author
from shoal.api.commitish import parse_head
from shoal.errors import InvalidInput, Unsupported
from shoal.formats.arrow.reader import batches
from shoal.ids import Id, derived
from shoal.lake import changes, rewriting
from shoal.lake.commits import Note
from shoal.lake.lake import open_at
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.model import types as t
from shoal.model.fields import get_or
from shoal.model.values import Value
from shoal.planner.pool_partitions import with_partitions


@dataclass
class WrittenBatch(WriterCommitMessage):  # type: ignore[misc]
    """What a task has written: its data objects, pickled; its stream; where the journal stood before."""

    objects: bytes
    stream: str
    position: int


class ShoalStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes batches, each as one commit."""

    def __init__(self, options: Mapping[str, str], overwrite: bool) -> None:
        for name in ("lake", "path"):
            if not options.get(name):
                way = 'df.writeStream.format("shoal").option("lake", uri).start("pool")'
                raise InvalidInput(f"the source shoal has no option {name} (such as {way})")
        if overwrite:
            raise Unsupported('a stream is written with outputMode("append") alone')
        self._lake = options["lake"]
        self._name, self._branch = parse_head(options["path"])
        self._stream = options.get("stream")
        self._note = Note(options.get("author") or default_author(), options.get("message", ""))
        lake = open_at(self._lake)
        lake.require_writable()
        pool = lake.pool(self._name)
        pool.refs().branch(self._branch)
        self._position = pool.journal.read().position

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenBatch:
        """Write the rows of a task."""
        stream = self._stream or _query_id()
        pieces = (piece for batch in iterator for piece in batches(batch))
        return WrittenBatch(pickle.dumps(self._pool().writer().write_all(pieces)), stream, self._position)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit what the tasks of a batch have written, unless that was done before."""
        objects = _objects(messages)
        if not objects:
            return
        written = [message for message in messages if isinstance(message, WrittenBatch)]
        stream, begun = written[0].stream, min(message.position for message in written)
        pool, op = self._pool(), operation_id(stream, batchId)
        if _was_committed_before_vacuum(pool, self._branch, op, stream, batchId):
            rewriting.remove(pool, objects)
            return
        note = replace(self._note, meta=batch_meta(stream, batchId))
        change = changes.load_into(pool, self._branch, objects, note, op, begun)
        commit = pool.committer.once(op, self._branch, lambda: pool.committer.commit(change))
        ours = {o.id for o in objects}
        if not ours & {o.id for o in pool.commits.read(commit).adds}:
            rewriting.remove(pool, objects)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what tasks have written if another task failed.

        After a commit that failed, whose outcome may be unknown, the objects stay, for a vacuum.
        """
        if any(message is None for message in messages):
            rewriting.remove(self._pool(), _objects(messages))

    def _pool(self) -> Pool:
        return with_partitions(open_at(self._lake).pool(self._name))


def operation_id(stream: str, batch: int) -> Id:
    """The operation of a batch, whichever process commits it."""
    return derived("batch", stream, str(batch))


def batch_meta(stream: str, batch: int) -> Value:
    """What the commit of a batch says about it."""
    return Value(t.record((("stream", t.STRING), ("batch", t.INT64))), (stream, batch))


def _was_committed_before_vacuum(pool: Pool, branch: str, op: Id, stream: str, batch: int) -> bool:
    """Whether the branch has the commit of a batch whose first attempt a vacuum may have taken."""
    refs = pool.refs()
    if refs.vacuum is None or pool.commits.lookup(op) is not None:
        return False
    for commit in pool.log(refs.branch(branch).commit):
        if isinstance(commit.note.meta.type.under, t.Record) and get_or(commit.note.meta, "stream", None) == stream:
            return bool(get_or(commit.note.meta, "batch", -1) >= batch)
    return False


def _query_id() -> str:
    """The query that a task works for; Spark keeps its id in the checkpoint."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    if not query:
        raise Unsupported("Spark does not say which query this is (name the stream with the option stream)")
    return str(query)


def _objects(messages: list[WriterCommitMessage | None]) -> list[DataObject]:
    written = [message.objects for message in messages if isinstance(message, WrittenBatch)]
    return [o for objects in written for o in pickle.loads(objects)]  # noqa: S301 - from our tasks
