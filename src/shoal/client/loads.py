"""Loads through a service: one body is one request, several are one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.api.branch import FindDone, Load
from shoal.api.codecs import COMMIT, Reader
from shoal.api.transaction import Begin
from shoal.client.requests import carry_out, commit_if_done, note_headers
from shoal.client.service import Call, Service, make_key
from shoal.client.transactions import begin
from shoal.client.uploads import Upload, load_choices, open_uploads
from shoal.errors import OutcomeUnknown

Staged = tuple[Upload, dict[str, str | None]]
"""A body, and how it is to be read."""


def load(service: Service, request: Load) -> str:
    """Commit data; the id of the commit."""
    key = make_key(request.op)
    with open_uploads(request.data, request.format, request.options) as uploads:
        bodies = [(upload, load_choices(upload, request.engine, request.options)) for upload in uploads]
        if len(bodies) > 1:
            return _load_each(service, request, bodies, key)
        ((upload, choices),) = bodies
        return _load_one(service, request, upload, choices, key)


def _load_one(service: Service, request: Load, upload: Upload, choices: dict[str, str | None], key: str) -> str:
    names = ("pool", request.pool, "branch", request.branch)
    call = Call("POST", names, choices, note_headers(request.note), upload=upload, key=key)
    try:
        return COMMIT.decode(Reader(service.url), iter(service.read_all(call)))
    except OutcomeUnknown as e:
        commit = None if e.commit is None else commit_if_done(service, request.pool, request.branch, e.commit)
        if commit is None:
            raise
        return commit


def _load_each(service: Service, request: Load, bodies: Sequence[Staged], key: str) -> str:
    """Several bodies as one commit; if one of them cannot be read, nothing is committed."""
    transaction = begin(service, Begin(request.pool, request.branch, op=key))
    done = carry_out(service, FindDone(request.pool, request.branch, transaction.id))
    if done is not None:
        return done
    try:
        for upload, choices in bodies:
            transaction.stage(upload, choices)
    except BaseException:
        transaction.give_up()
        raise
    note = request.note
    return transaction.commit(author=note.author, message=note.message, meta=note.meta)
