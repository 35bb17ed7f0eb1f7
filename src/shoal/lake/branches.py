"""What the journal of a pool holds: branches and tags, and what has been taken out of its history."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from shoal.ids import TEXT_SIZE, Id, parse, to_text
from shoal.lake.journal import Changes, Entry, State
from shoal.lake.pending import pending_in
from shoal.lake.timelines import CLOCK
from shoal.model import types as t
from shoal.model.fields import NO_ID, get_data, get_id, id_value, named, time_value, uint64
from shoal.model.literals import parse_time
from shoal.model.node import frozen
from shoal.model.plain_names import require_plain_name
from shoal.model.values import Value, record, string
from shoal.suggestions import did_you_mean

MAIN = "main"
_BRANCH, _TAG, _PURGED, _HORIZON, _VACUUM, _DROPPED = "branch/", "tag/", "purged/", "horizon", "vacuum", "dropped"
_PRIMARY = "primary"
_PATHS = t.array(t.array(t.STRING))
Paths = tuple[tuple[str, ...], ...]
_NAME = re.compile(r"[^\s@:'\"`|()\[\]{},;*?/\\]+(?:/[^\s@:'\"`|()\[\]{},;*?/\\]+)*")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT.*")


@frozen
class Ref:
    """A branch or a tag."""

    name: str
    commit: Id | None
    """None: the empty beginning."""
    ts: int
    """When it was last set, in nanoseconds since 1970."""


@frozen
class VacuumMark:
    """The last vacuum: the entry that announced it, and the newest time of writing that any vacuum has taken."""

    position: int
    until: int
    """In nanoseconds since 1970, by the clock of the store."""


def check_name(name: str, kind: str) -> str:
    """The name itself; InvalidInput for one that could be read as something else."""
    require_plain_name(name, f"{kind} name")
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise InvalidInput(f"invalid {kind} name: {name[:100]!r} (no spaces, quotes or any of @ : | * ? , ;)")
    if (len(name) == TEXT_SIZE and name.isalnum()) or name.startswith("0x"):
        raise InvalidInput(f"invalid {kind} name: {name!r} (it could be taken for an id)")
    if name == "HEAD" or _TIME.match(name):
        raise InvalidInput(f"invalid {kind} name: {name!r} (it has a meaning of its own)")
    return name


def set_branch(name: str, commit: Id | None, ts: int) -> dict[str, Value | None]:
    """The change that lets a branch point at a commit."""
    return {_BRANCH + name: show_ref(Ref(name, commit, ts))}


def set_tag(name: str, commit: Id, ts: int) -> dict[str, Value | None]:
    """The change that lets a tag point at a commit."""
    return {_TAG + name: show_ref(Ref(name, commit, ts))}


def drop_branch(name: str) -> dict[str, Value | None]:
    """The change that removes a branch."""
    return {_BRANCH + name: None}


def drop_tag(name: str) -> dict[str, Value | None]:
    """The change that removes a tag."""
    return {_TAG + name: None}


def set_horizon(commit: Id) -> dict[str, Value | None]:
    """The change that makes a commit the first one."""
    return {_HORIZON: id_value(commit)}


def purge(idents: list[Id]) -> dict[str, Value | None]:
    """The change that says of objects that they are gone."""
    return {_PURGED + to_text(ident): id_value(ident) for ident in idents}


def set_vacuum(mark: VacuumMark) -> dict[str, Value | None]:
    """The change that says of old objects which nothing reaches that they are about to go."""
    return {_VACUUM: record([("position", uint64(mark.position)), ("until", time_value(mark.until))])}


class Altered(Conflict):
    """The primary key of a pool is another one than this handle of it knows."""

    def __init__(self, pool: Id, name: str) -> None:
        super().__init__(f"{name}: the primary key of this pool has changed meanwhile (repeat the command)")
        self.pool = pool


def set_primary(paths: Paths) -> dict[str, Value | None]:
    """The change that gives a pool that has data another primary key, or none."""
    return {_PRIMARY: Value(_PATHS, paths)}


def primary_of(state: State) -> Paths | None:
    """The primary key of a pool, if it was changed since the pool was created."""
    value = state.entries.get(_PRIMARY)
    return None if value is None else tuple(tuple(path) for path in value.data)


def touches(changes: Changes, branch: str) -> bool:
    """Whether changes move a branch, or depend on where all branches are."""
    return any(key == _BRANCH + branch or key in (_PRIMARY, _HORIZON) or key.startswith(_PURGED) for key in changes)


def drop_pool(ts: int) -> dict[str, Value | None]:
    """The change that ends the journal of a pool."""
    return {_DROPPED: time_value(ts)}


def is_dropped(state: State) -> bool:
    """Whether the journal of a pool has ended."""
    return _DROPPED in state.entries


def horizon_of(state: State) -> Id | None:
    """The commit that history begins with, if its beginning was cut off."""
    horizon = state.entries.get(_HORIZON)
    return None if horizon is None else Id(horizon.data)


def commit_set(changes: Changes, branch: str) -> Id:
    """The commit that an entry of the journal let a branch point at."""
    value = changes.get(_BRANCH + branch)
    if value is None:
        raise InvalidInput(f'this operation was one on another branch than "{branch}" (use a new id)')
    return get_id(value, "commit", branch)


def require_set(changes: Changes, expected: Changes) -> None:
    """InvalidInput if an entry of the journal, found by its id, is not one that sets, or takes away, these keys."""
    if {key: value is None for key, value in changes.items() if key != CLOCK} != {
        key: value is None for key, value in expected.items()
    }:
        raise InvalidInput("this id is that of another operation (use a new one)")


def commit_of(entry: Entry, op: Id, branch: str) -> Id:
    """The commit that an operation put onto a branch, by the entry that names the operation."""
    return entry.group.get(op, commit_set(entry.changes, branch))


def _range_hint(name: str) -> str:
    """What a name that is not there was meant to be, if it looks like the two ends of a change feed."""
    if ".." not in name:
        return ""
    return (
        " (the changes between two commits are from POOL@A..B:changes, not in SQL; a name with two dots is in quotes)"
    )


class Refs:
    """The journal of a pool at one position; NotFound for a pool that was dropped."""

    def __init__(self, state: State) -> None:
        if is_dropped(state):
            raise NotFound(f"{state.owner}: this pool has been dropped meanwhile")
        self._state = state

    def branches(self) -> list[Ref]:
        """All branches, by name."""
        return sorted(self._all(_BRANCH), key=lambda ref: ref.name)

    def tags(self) -> list[Ref]:
        """All tags, by name."""
        return sorted(self._all(_TAG), key=lambda ref: ref.name)

    def _all(self, kind: str) -> Iterator[Ref]:
        return (_parse(v, k) for k, v in self._state.entries.items() if k.startswith(kind))

    def has_branch(self, name: str) -> bool:
        """Whether there is a branch of this name."""
        return _BRANCH + name in self._state.entries

    def branch(self, name: str) -> Ref:
        """A branch by its name."""
        value = self._state.entries.get(_BRANCH + name)
        if value is None:
            raise self.unknown_branch(name)
        return _parse(value, name)

    def unknown_branch(self, name: str) -> NotFound:
        """The error of a name that nothing here has; it suggests a branch or a tag."""
        names = (*self._names(_BRANCH), *self._names(_TAG))
        return NotFound(f'"{name}": branch not found{did_you_mean(name, names) or _range_hint(name)}')

    def _names(self, kind: str) -> Iterator[str]:
        return (key.removeprefix(kind) for key in self._state.entries if key.startswith(kind))

    def tag(self, name: str) -> Ref:
        """A tag by its name."""
        value = self._state.entries.get(_TAG + name)
        if value is None:
            raise NotFound(f'"{name}": tag not found{did_you_mean(name, self._names(_TAG))}')
        return _parse(value, name)

    def named(self, name: str) -> Ref | None:
        """A branch or tag by its name."""
        value = self._state.entries.get(_BRANCH + name) or self._state.entries.get(_TAG + name)
        return None if value is None else _parse(value, name)

    def require_free(self, name: str) -> None:
        """AlreadyExists if a branch or tag has this name."""
        if _BRANCH + name in self._state.entries:
            raise AlreadyExists(f'"{name}": branch already exists')
        if _TAG + name in self._state.entries:
            raise AlreadyExists(f'"{name}": a tag of this name already exists')

    @property
    def horizon(self) -> Id | None:
        """The commit that history begins with, if its beginning was cut off."""
        return horizon_of(self._state)

    @property
    def vacuum(self) -> VacuumMark | None:
        """The last vacuum, if there was one."""
        mark = self._state.entries.get(_VACUUM)
        if mark is None:
            return None
        return VacuumMark(get_data(mark, "position", _VACUUM), get_data(mark, "until", _VACUUM))

    def tips(self) -> set[Id]:
        """The commits that branches and tags point at, and those that branches may be about to point at."""
        tips = {ref.commit for ref in (*self._all(_BRANCH), *self._all(_TAG))}
        tips.update(pending.commit for pending in pending_in(self._state.entries))
        return {tip for tip in tips if tip is not None}

    def is_purged(self, ident: Id) -> bool:
        """Whether a data object was purged."""
        return _PURGED + to_text(ident) in self._state.entries

    def purged(self) -> list[Id]:
        """All data objects that were purged."""
        return [Id(v.data) for k, v in self._state.entries.items() if k.startswith(_PURGED)]


def as_time(text: str) -> int | None:
    """The nanoseconds of an RFC 3339 time; None if the text is none."""
    return parse_time(text) if _TIME.match(text) else None


def as_id(text: str) -> Id | None:
    """An id, if a text is one."""
    try:
        return parse(text)
    except InvalidInput:
        return None


def show_ref(ref: Ref) -> Value:
    """A branch or tag as meta-queries show it."""
    fields = (("ts", time_value(ref.ts)), ("name", string(ref.name)), ("commit", id_value(ref.commit or NO_ID)))
    return named("branches.Config", *fields)


def _parse(value: Value, where: str) -> Ref:
    commit = get_id(value, "commit", where)
    name, ts = get_data(value, "name", where), get_data(value, "ts", where)
    return Ref(name, None if commit == NO_ID else commit, ts)
