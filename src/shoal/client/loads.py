"""Loading through a service: one body is one request, several are one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.client.changes import commit_by, find_done
from shoal.client.remote_transaction import begin
from shoal.client.service import Call, Note, Service, make_key
from shoal.client.uploads import Upload, load_choices, open_uploads
from shoal.formats.options import ReadOptions


def load(
    service: Service,
    pool: str,
    branch: str,
    data: Any,
    format_name: str,
    note: Note,
    ident: str | None,
    engine: str | None,
    options: ReadOptions,
) -> str:
    """Commit data; the id of the commit."""
    key = make_key(ident)
    with open_uploads(data, format_name, options) as uploads:
        if len(uploads) > 1:
            return _load_each(service, pool, branch, uploads, note, key, engine, options)
        (upload,) = uploads
        choices = load_choices(upload, engine, options)
        call = Call("POST", ("pool", pool, "branch", branch), choices, note.headers(), upload=upload, key=key)
        return commit_by(service, pool, branch, call)


def _load_each(
    service: Service,
    pool: str,
    branch: str,
    uploads: Sequence[Upload],
    note: Note,
    key: str,
    engine: str | None,
    options: ReadOptions,
) -> str:
    """Several bodies as one commit, of which nothing is seen if one of them cannot be read."""
    transaction = begin(service, pool, branch, "snapshot", None, key)
    done = find_done(service, pool, branch, transaction.id)
    if done is not None:
        return done
    try:
        for upload in uploads:
            transaction.stage(upload, load_choices(upload, engine, options))
    except BaseException:
        transaction.give_up()
        raise
    return transaction.commit(author=note.author, message=note.message, meta=note.meta)
