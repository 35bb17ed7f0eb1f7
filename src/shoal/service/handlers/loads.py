"""Loads: the body of a request becomes a commit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from urllib.parse import unquote

from shoal.api.branch import Load
from shoal.api.codecs import id_of, texts
from shoal.errors import InvalidInput
from shoal.formats.detect import Piece
from shoal.frames.inputs import Reading, read_named
from shoal.model.fields import named
from shoal.service.answers import Answer
from shoal.service.calls import Call
from shoal.service.handlers.verbs import announce_commit

_NAME_HEADER = "shoal-source"
"""Its text is quoted as in URLs: a header holds ASCII."""


def pieces(call: Call) -> Iterator[Piece]:
    """The values in the body of a request; errors begin with the name that the client gave to it."""
    reading = Reading(call.format_of_body(), call.read_options(), in_columns=True)
    return read_named(unquote(call.headers.get(_NAME_HEADER, "")), call.source(), reading)


def load(call: Call) -> Answer:
    """Commit the body."""
    pool, branch = call.pool(), call.path["branch"]
    if call.params.get("engine") == "spark":
        raise InvalidInput("Spark loads files and DataFrames (leave the engine out for anything else)")
    # A body that came whole is known before it is read: what it asks for may have been done.
    op = call.operation() if call.body.is_whole else call.operation
    commit = call.lake.do(Load(pool.id, branch, _some(pieces(call)), note=call.note(), op=op))
    call.service.metrics.loaded.inc(call.body.size)
    announce_commit(call, branch, commit)
    return named("api.CommitResponse", ("commit", id_of(commit)), ("warnings", texts(call.warnings)))


def _some(values: Iterator[Piece]) -> Iterator[Piece]:
    """The values; InvalidInput if there are none."""
    first = next(values, None)
    if first is None:
        raise InvalidInput("no records in request")
    return chain((first,), values)
