"""The common way of a request through the service: read it, carry it out, announce it, answer with its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from shoal.api.infos import Compaction
from shoal.api.requests import Request
from shoal.service.answers import Answer, gathered
from shoal.service.calls import Call


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


def announce_commit(call: Call, branch: str, commit: str) -> None:
    """Tell listeners that a branch has a new commit."""
    pool = call.pool()
    (parent,) = (each.parent for each in islice(pool.log(commit), 1))
    call.service.publish("branch-commit", pool.id, branch=branch, commit_id=commit, parent=parent or "")


def _announced(call: Call, request: Any, compactions: Iterator[Compaction]) -> Iterator[Compaction]:
    for compaction in compactions:
        if compaction.commit is not None:
            announce_commit(call, request.branch, compaction.commit)
        yield compaction
