"""Transactions over several pools of a lake in a store: one transaction a branch, with one cut and one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, Self

from shoal.access.view import Pools
from shoal.api.commitish import parse_head
from shoal.api.infos import PlaceInfo
from shoal.api.lake_transaction import BeginOver, LakeTransaction, Resume
from shoal.api.requests import NO_NOTE, Note, Op
from shoal.api.results import Results
from shoal.errors import InvalidInput, NotFound
from shoal.ids import Id, new, parse, to_text
from shoal.lake import changes, pool_transactions, rewriting, sessions
from shoal.lake.actions import Patch
from shoal.lake.branches import MAIN
from shoal.lake.commits import Note as StoredNote
from shoal.lake.cuts import Taken, read_cut
from shoal.lake.pool_transactions import Place
from shoal.lake.roll_up import roll_up
from shoal.lake.sessions import Session
from shoal.lake.tallies import Tally
from shoal.local.executor import StoreExecutor, implements, operation, stored_note
from shoal.local.transaction_scope import Scope
from shoal.local.transactions import LocalTransaction, begin_in, cut_again
from shoal.planner.execute import Question
from shoal.planner.lake_query import ask, change_of


@implements(BeginOver)
def begin_over(lake: StoreExecutor, request: BeginOver) -> LocalLakeTransaction:
    """Begin a transaction on branches of several pools, which are read in one cut."""
    if not request.places:
        raise InvalidInput("a transaction needs the pools that it changes (such as orders, items@dev)")
    lake.root.require_writable()
    pool_transactions.require_transactions(lake.root.info, lake.uri)
    heads = [parse_head(place) for place in request.places]
    places = dict.fromkeys((lake.find(name), branch or MAIN) for name, branch in heads)
    journals = [(pool.config.id, pool.journal) for pool, _ in places]
    scope = Scope(read_cut(journals, [(pool.config.id, branch) for pool, branch in places]))
    txn = operation(request.op) or new()
    parts = [begin_in(lake, pool, branch, request, scope, txn) for pool, branch in places]
    return LocalLakeTransaction(lake.root, txn, parts, scope)


class LocalLakeTransaction(LakeTransaction):
    """Transactions on several branches that commit together."""

    def __init__(self, lake: Pools, txn: Id, parts: Sequence[LocalTransaction], scope: Scope) -> None:
        self._lake = lake
        self._txn = txn
        self._scope = scope
        self.parts = tuple(parts)
        for part in self.parts:
            part.whole = self.id

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._txn, *self.parts)

    @property
    def id(self) -> str:
        return to_text(self._txn)

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(map(_name, self.parts))

    @property
    def expires(self) -> float:
        return min(part.expires for part in self.parts)

    @property
    def infos(self) -> tuple[PlaceInfo, ...]:
        """Its branches, as they were when it began."""
        return tuple(map(_info, self.parts))

    def part(self, place: str) -> LocalTransaction:
        name, branch = parse_head(place)
        for part in self.parts:
            config = part.pool.config
            if name in (config.name, to_text(config.id)) and (branch or MAIN) == part.session.branch:
                return part
        raise NotFound(f"{place}: not part of this transaction (it was begun on {', '.join(self.places)})")

    def query(self, program: str) -> Results:
        scope = self._scope
        views, log = scope.views(), scope.log
        return ask(self._lake, Question(program, views=views, reads=log, cut=scope.cut, staging=scope))

    def sql(self, statement: str, *, op: Op = None) -> Results:
        change = change_of(statement)
        part = self.parts[0] if change is None or change.verb == "create" else self.part(change.target)
        return part.sql(statement, op=op)

    def take_over(self, *others: Self) -> None:
        for other in others:
            if [part.place for part in other.parts] != [part.place for part in self.parts]:
                raise InvalidInput(f"{other.id} is not a copy of transaction {self.id}")
            for part, copy in zip(self.parts, other.parts, strict=True):
                part.take_over(copy)

    def end(self, note: Note = NO_NOTE, *, if_changed: bool = False) -> Mapping[str, str] | None:
        self._require_active()
        if if_changed and all(part.is_empty for part in self.parts):
            self.abandon()
            return None
        commits, told = self._committed(), stored_note(note)
        if commits is None:
            members = [each for part in self.parts for each in self._members(part, told)]
            commits = pool_transactions.commit(self._lake.decisions, self._txn, members, told)
        self._finish()
        for part in self.parts:
            if part.place in commits:
                roll_up(part.pool, part.session.branch, commits[part.place], told.author)
        return {name: to_text(ident) for name, ident in self._by_name(commits)}

    def _committed(self) -> Mapping[Place, Id] | None:
        """What it has done, if it was committed before: also after it has expired."""
        decision = self._lake.decisions.committed(self._txn)
        if decision is None:
            return None
        places = [part.place for part in self.parts if pool_transactions.takes_part(part.session)]
        pool_transactions.require_places(decision, self._txn, places)
        return pool_transactions.commits_of(decision, {part.place for part in self.parts if not part.is_empty})

    def _members(self, part: LocalTransaction, note: StoredNote) -> Iterator[pool_transactions.Participant]:
        """What is done on a branch. A commit without a message describes its own branch: others may be hidden."""
        described = changes.with_message(note, rewriting.describe_patch(part.session.staged))
        yield from pool_transactions.participants_of(self._lake, [(part.pool, part.session)], described)

    def _by_name(self, commits: Mapping[Place, Id]) -> list[tuple[str, Id]]:
        return [(_name(part), commits[part.place]) for part in self.parts if part.place in commits]

    def abandon(self) -> None:
        self._require_active()
        for part in self.parts:
            part.discard()
        self.is_done = True

    def _finish(self) -> None:
        self.is_done = True
        for part in self.parts:
            part.is_done = True

    def _require_active(self) -> None:
        if self.is_done:
            raise InvalidInput(f"transaction {self.id} has ended (begin a new one)")

    # ---- in another process

    def save(self) -> str:
        self._require_active()
        if self._scope.log is not None:
            raise InvalidInput("a serializable transaction cannot be saved (begin one with snapshot isolation)")
        cut = [_saved_pool(each) for each in self._scope.cut.taken()]
        return json.dumps({"id": self.id, "parts": list(map(_saved, self.parts)), "cut": cut})


def _name(part: LocalTransaction) -> str:
    return f"{part.pool.config.name}@{part.session.branch}"


def _info(part: LocalTransaction) -> PlaceInfo:
    session = part.session
    return PlaceInfo(_name(part), to_text(part.pool.config.id), session.branch, part.base, session.position)


def _restored(txn: Id, *parts: LocalTransaction) -> LocalLakeTransaction:
    """A copy of a transaction, whose parts were restored one by one: they see each other again."""
    scope, lake = Scope(parts[0].scope.cut), parts[0].lake
    joined = [LocalTransaction(lake, part.pool, part.session, scope) for part in parts]
    return LocalLakeTransaction(lake, txn, joined, scope)


def _saved_pool(taken: Taken) -> dict[str, Any]:
    """A pool of a cut as JSON."""
    return {"pool": to_text(taken.pool), "position": taken.position, "hidden": [to_text(txn) for txn in taken.hidden]}


def _saved(part: LocalTransaction) -> dict[str, Any]:
    """A session as JSON; what is staged is in a commit that no branch points at."""
    session = part.session
    view = None if session.staged.is_empty else part.view()
    return {
        "pool": to_text(part.pool.config.id),
        "branch": session.branch,
        "base": None if session.base is None else to_text(session.base),
        "position": session.position,
        "expires": session.expires,
        "view": None if view is None else to_text(view),
        "records": None if session.records is None else astuple(session.records),
    }


@implements(Resume)
def resume(lake: StoreExecutor, request: Resume) -> LocalLakeTransaction:
    """Go on with a transaction that was saved."""
    try:
        saved = json.loads(request.saved)
        txn, scope = parse(saved["id"]), Scope(cut_again(lake.root, _taken(saved)))
        parts = [_resumed(lake, txn, each, scope) for each in saved["parts"]]
    except (KeyError, TypeError, ValueError):
        raise InvalidInput("this is not a saved transaction (it is what save() gives)") from None
    for part in parts:
        sessions.check_open(part.session)
    return LocalLakeTransaction(lake.root, txn, parts, scope)


def _taken(saved: Mapping[str, Any]) -> list[Taken]:
    """The cut of a saved transaction; earlier versions saved the positions of its parts alone."""
    pools = saved.get("cut", saved["parts"])
    hidden = [tuple(map(parse, each.get("hidden", ()))) for each in pools]
    return [Taken(parse(each["pool"]), int(each["position"]), txns) for each, txns in zip(pools, hidden, strict=True)]


def _resumed(lake: StoreExecutor, txn: Id, saved: Mapping[str, Any], scope: Scope) -> LocalTransaction:
    pool = lake.find(saved["pool"])
    base = None if saved["base"] is None else parse(saved["base"])
    records = None if saved["records"] is None else Tally(*map(int, saved["records"]))
    session = Session(txn, saved["branch"], base, int(saved["position"]), float(saved["expires"]), records=records)
    if saved["view"] is not None:
        session = replace(session, staged=Patch(pool.commits.read(parse(saved["view"])).actions))
    return LocalTransaction(lake.root, pool, session, scope)
