"""Changes to a pool behind a service: each has one key, happens once, and is asked about if its answer is lost."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.access.authors import default_author
from shoal.client.infos import Reader
from shoal.client.service import Call, Note, Service
from shoal.errors import OutcomeUnknown, ShoalError
from shoal.frames.python_values import from_python
from shoal.model.values import FALSE


class Place(NamedTuple):
    """A branch of a pool behind a service."""

    service: Service
    pool: str
    branch: str

    def names(self, *names: str) -> tuple[str, ...]:
        """The segments of the path of something that belongs to it."""
        return ("pool", self.pool, "branch", self.branch, *names)


def make_note(author: str | None, message: str, meta: Any) -> Note:
    """What is said of a commit."""
    return Note(default_author() if author is None else author, message, None if meta is None else from_python(meta))


def commit_by(place: Place, call: Call) -> str:
    """The id of the commit that a change of a branch makes."""
    made = optional_commit_by(place, call)
    assert made is not None
    return made


def optional_commit_by(place: Place, call: Call, ident: str | None = None) -> str | None:
    """The same for a change that may be none; `ident` is what to ask about if that stays unknown."""
    try:
        made = place.service.change(call)
    except OutcomeUnknown as e:
        done = _ask(place, ident or e.commit)
        if done is None:
            raise
        return done
    return None if made is None else Reader(place.service.url).id(made, "commit")


def _ask(place: Place, ident: str | None) -> str | None:
    """The commit of an operation, if the service can be asked about it."""
    try:
        return None if ident is None else find_done(place, ident)
    except ShoalError:
        return None


def find_done(place: Place, ident: str) -> str | None:
    """The commit that an operation has made, by its id; None if it was not done."""
    told = place.service.read_one(*place.names("commit", ident))
    return Reader(place.service.url).id(told, "commit") if (told.field("is_done") or FALSE).data else None
