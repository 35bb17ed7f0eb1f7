"""Loading through a service: one body is one request, several are one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.api.options import ReadOptions
from shoal.client.changes import Place, commit_by, find_done
from shoal.client.remote_transaction import begin
from shoal.client.service import Call, Note, make_key
from shoal.client.uploads import Upload, load_choices, open_uploads

Staged = tuple[Upload, dict[str, str | None]]
"""A body, and how it is to be read."""


def load(
    place: Place,
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
        bodies = [(upload, load_choices(upload, engine, options)) for upload in uploads]
        if len(bodies) > 1:
            return _load_each(place, bodies, note, key)
        ((upload, choices),) = bodies
        return commit_by(place, Call("POST", place.names(), choices, note.headers(), upload=upload, key=key))


def _load_each(place: Place, bodies: Sequence[Staged], note: Note, key: str) -> str:
    """Several bodies as one commit, of which nothing is seen if one of them cannot be read."""
    transaction = begin(place, "snapshot", None, key)
    done = find_done(place, transaction.id)
    if done is not None:
        return done
    try:
        for upload, choices in bodies:
            transaction.stage(upload, choices)
    except BaseException:
        transaction.give_up()
        raise
    return transaction.commit(author=note.author, message=note.message, meta=note.meta)
