"""Requests that change or read a lake: read the request, carry it out, announce it, answer with its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from shoal.api.branch import Load
from shoal.api.codecs import id_of, texts
from shoal.api.infos import Compaction
from shoal.api.options import for_load
from shoal.api.pool import Pool
from shoal.api.requests import Request
from shoal.errors import InvalidInput
from shoal.frames.inputs import Reading, read_named
from shoal.model.fields import named
from shoal.service.answers import Answer, gathered
from shoal.service.calls import Call

if TYPE_CHECKING:
    from shoal.formats.columns.batches import Piece


def carry_out(kind: type[Request[Any]]) -> Callable[[Call], Answer]:
    """The handler of a request type."""
    http = kind.http

    def handle(call: Call) -> Answer:
        request = call.request(kind)
        result = call.lake.do(request)
        if http.result.is_stream:
            items = _announced(call, request, result) if http.event else result
            return gathered(http.result.encode(items))  # type: ignore[arg-type] # a stream is encoded as one
        announce(call, http.event, request, result)
        return http.result.encode(result)

    return handle


def announce(call: Call, event: str, request: Any, result: Any) -> None:
    """Tell listeners to `/events` what a request has changed."""
    match event:
        case "":
            return
        case "branch-commit":
            announce_commit(call, request.branch, result)
        case "branch-update" | "branch-delete":
            names = (getattr(request, name, None) for name in ("branch", "name", "tag"))
            call.service.publish(event, request.pool, branch=next(name for name in names if name is not None))
        case _:
            call.service.publish(event, request.pool)


def announce_commit(call: Call, branch: str, commit: str, pool: Pool | None = None) -> None:
    """Tell listeners that a branch has a new commit; the pool is that of the path, if no other is given."""
    pool = pool or call.pool()
    (parent,) = (each.parent for each in islice(pool.log(commit), 1))
    call.service.publish("branch-commit", pool.id, branch=branch, commit_id=commit, parent=parent or "")


def _announced(call: Call, request: Any, compactions: Iterator[Compaction]) -> Iterator[Compaction]:
    for compaction in compactions:
        if compaction.commit is not None:
            announce_commit(call, request.branch, compaction.commit)
        yield compaction


_NAME_HEADER = "shoal-source"
"""Its text is quoted as in URLs: a header holds ASCII."""


def pieces(call: Call) -> Iterator[Piece]:
    """The values in the body of a request; errors begin with the name that the client gave to it."""
    name = unquote(call.headers.get(_NAME_HEADER, ""))
    # Clients of Zed rely on its rule for CSV, by which each cell decides its own type. Those of Shoal ask for columns.
    options = call.read_options()
    options = for_load(replace(options, csv_infer=options.csv_infer or "cells"))
    reading = Reading(call.format_of_body(), options, in_columns=True)
    try:
        source = call.source()
    except InvalidInput as e:
        raise InvalidInput(f"{name}: {e}") if name else e from e
    return read_named(name, source, reading)


def load(call: Call) -> Answer:
    """Commit the body."""
    pool, branch = call.pool(), call.path["branch"]
    if call.params.get("engine") == "spark":
        raise InvalidInput("Spark loads files and DataFrames (leave the engine out for anything else)")
    # A body that came whole is known before it is read: what it asks for may have been done.
    op = call.operation() if call.body.is_whole else call.operation
    options = call.read_options()
    mode: Any = call.params.get("mode", "load")
    request = Load(
        pool.id,
        branch,
        _some(pieces(call)),
        options=options,
        note=call.note(),
        op=op,
        mode=mode,
        on_conflict=call.params.get("on_conflict"),
        expect=call.params.get("expect"),
    )
    commit = call.lake.do(request)
    call.service.metrics.loaded.inc(call.body.size)
    announce_commit(call, branch, commit)
    return named("api.CommitResponse", ("commit", id_of(commit)), ("warnings", texts(call.warnings)))


def _some(values: Iterator[Piece]) -> Iterator[Piece]:
    """The values; InvalidInput if there are none."""
    first = next(values, None)
    if first is None:
        raise InvalidInput("no records in request")
    return chain((first,), values)
