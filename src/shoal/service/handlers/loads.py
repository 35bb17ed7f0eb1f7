"""What changes the data of a branch: load, delete, compact."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from shoal.api.protocol import Compaction
from shoal.errors import InvalidInput
from shoal.formats.detect import Piece
from shoal.frames.inputs import Reading, read_named
from shoal.local.pool import LocalPool
from shoal.model.values import Value, array, int64, record, string
from shoal.service.answers import Answer, commit_response, id_of, load_response
from shoal.service.calls import Call, id_texts
from shoal.service.handlers.pools import branch_update

_NAME_HEADER = "shoal-source"
"""Its text is quoted as in URLs: a header holds ASCII."""


def pieces(call: Call) -> Iterator[Piece]:
    """What the body of a request holds; errors begin with the name that the client gave to it."""
    reading = Reading(call.format_of_body(), call.read_options(), in_columns=True)
    return read_named(unquote(call.headers.get(_NAME_HEADER, "")), call.source(), reading)


def load(call: Call) -> Answer:
    """Commit the body."""
    pool, branch = call.pool(), call.path["branch"]
    if call.params.get("engine") == "spark":
        raise InvalidInput("Spark loads files and DataFrames (leave the engine out for anything else)")
    pool.inner.refs().branch(branch)
    note = call.note()
    # A body that came whole is known before it is read: what it asked for may have been done.
    op = call.operation() if call.body.is_whole else None
    commit = None if op is None else pool.done(op, branch)
    if commit is None:
        objects = pool.write(pieces(call))
        if not objects:
            raise InvalidInput("no records in request")
        commit = pool.add(objects, branch=branch, **note, id=op or call.operation())
    call.service.metrics.loaded.inc(call.body.size)
    branch_update(call, pool, branch, commit)
    return load_response(commit, call.warnings)


def delete(call: Call) -> Answer:
    """Remove data objects, or the records that a filter is true for."""
    pool, branch = call.pool(), call.path["branch"]
    ids, where = deletion(call)
    commit = pool.delete(
        ids, where=where, branch=branch, engine=call.params.get("engine"), **call.note(), id=call.operation()
    )
    branch_update(call, pool, branch, commit)
    return commit_response(commit, call.warnings)


def deletion(call: Call) -> tuple[list[str], str | None]:
    """The ids, or the filter, in the body of a request."""
    asked = call.record({"object_ids": list, "where": str})
    if "where" in asked and asked.get("object_ids"):
        raise InvalidInput("delete by object_ids or by where, not both")
    return id_texts(asked.get("object_ids", [])), asked.get("where")


def compact(call: Call) -> Answer:
    """Rewrite data objects without overlaps."""
    pool, branch = call.pool(), call.path["branch"]
    ids = id_texts(call.record({"object_ids": list}).get("object_ids", []))
    commit = pool.compact(ids, branch=branch, engine=call.params.get("engine"), **call.note(), id=call.operation())
    branch_update(call, pool, branch, commit)
    return commit_response(commit, call.warnings)


def runs(call: Call) -> Answer:
    """Which data objects are worth compacting, each list together."""
    return [array(map(id_of, run)) for run in call.pool().compact_runs(call.path["branch"])]


def compact_all(call: Call) -> Answer:
    """Compact what is worth it, and tell of each run when it is done."""
    pool, branch = call.pool(), call.path["branch"]
    return _told(call, pool, branch, pool.compact_all(branch, engine=call.params.get("engine")))


def _told(call: Call, pool: LocalPool, branch: str, found: Iterator[Compaction]) -> Iterator[Value]:
    for each in found:
        if each.commit is not None:
            branch_update(call, pool, branch, each.commit)
        fields = [("objects", int64(each.objects)), ("commit", id_of(each.commit)), ("error", string(each.error))]
        yield record(fields)


def vectors(call: Call) -> Answer:
    """Columns are how data is kept: there is nothing to add or to take away. Accepted for clients that ask for it."""
    call.record({"object_ids": list})
    pool, branch = call.pool(), call.path["revision"]
    return commit_response(pool.resolve(branch), [*call.warnings, "data objects are columns already"])
