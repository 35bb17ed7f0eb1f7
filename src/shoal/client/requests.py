"""Requests as calls of a service, derived from their types, and answers as results.

Reading may be asked twice. So may changing, because each change has a key, and the service carries it out once.
"""

from __future__ import annotations

import json
from typing import Any

from shoal.access.records import default_author
from shoal.api.branch import FindDone
from shoal.api.codecs import Reader
from shoal.api.requests import Note, R, Request, body_of, params_of
from shoal.client.service import Call, Service, decode, make_key
from shoal.errors import OutcomeUnknown, ShoalError, TooLarge
from shoal.frames.python_values import from_python
from shoal.model.text import format_value
from shoal.model.values import Value, array, record, string

LARGEST_NOTE = 48 << 10
"""Bytes of author, message and metadata: they travel in a header, for which a service has limits."""
READ_SECONDS = 300.0
"""How long a service may think about something that takes no work."""


def carry_out(service: Service, request: Request[R]) -> R:
    """Send a request; its result."""
    call, http = call_of(request), type(request).http
    reader = Reader(service.url)
    result: R
    if http.result.is_stream:
        result = http.result.decode(reader, decode(service.send(call)))
        return result
    try:
        result = http.result.decode(reader, iter(service.read_all(call)))
    except OutcomeUnknown as e:
        commit = _commit_of(service, request, e.commit) if http.event == "branch-commit" else None
        if commit is None:
            raise
        return commit  # type: ignore[return-value] # what makes a commit gives its id
    return result


def call_of(request: Request[Any]) -> Call:
    """The call that a request travels by."""
    kind, http = type(request), type(request).http
    segments = [s.strip("{}") if s.startswith("{") else None for s in http.path.strip("/").split("/")]
    fixed = http.path.strip("/").split("/")
    names = tuple(fixed[i] if name is None else getattr(request, name) for i, name in enumerate(segments))
    choices = {param.name: _text(getattr(request, name)) for name, param in params_of(kind).items()}
    fields = [
        (field.name, value_of(getattr(request, name)))
        for name, field in body_of(kind).items()
        if getattr(request, name) not in (None, ())
    ]
    note = getattr(request, "note", None)
    return Call(
        http.method,
        names,
        choices,
        {} if note is None else note_headers(note),
        value=record(fields) if body_of(kind) else None,
        key=None if http.method == "GET" else make_key(getattr(request, "op", None)),
        is_safe=http.method == "GET",
        timeout=READ_SECONDS if http.method == "GET" and not http.result.is_stream else None,
    )


def _text(choice: str | float | bool | None) -> str | None:
    match choice:
        case None | False:
            return None
        case True:
            return "T"
        case float() | int():
            return f"{choice:.9f}"
    return choice


def value_of(field: str | tuple[str, ...]) -> Value:
    """A field of a body."""
    return string(field) if isinstance(field, str) else array(map(string, field))


def note_headers(note: Note) -> dict[str, str]:
    """The header that says who makes a commit, and why."""
    fields = {"author": default_author() if note.author is None else note.author, "body": note.message}
    if note.meta is not None:
        fields["meta"] = format_value(from_python(note.meta))
    text = json.dumps(fields)
    if len(text) > LARGEST_NOTE:
        raise TooLarge(f"commit author, message and meta take {len(text)} bytes; the limit is {LARGEST_NOTE}")
    return {"Zed-Commit": text}


def _commit_of(service: Service, request: Any, op: str | None) -> str | None:
    return None if op is None else commit_if_done(service, request.pool, request.branch, op)


def commit_if_done(service: Service, pool: str, branch: str, op: str) -> str | None:
    """The commit of an operation whose outcome is unknown, if the service can be asked about it."""
    try:
        return carry_out(service, FindDone(pool, branch, op))
    except ShoalError:
        return None
