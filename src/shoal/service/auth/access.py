"""Whether somebody may do something: deny, unless a grant says otherwise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from shoal.access.records import EVERYTHING, Rights
from shoal.access.view import VisibleLake
from shoal.api.access import Verb
from shoal.errors import Forbidden, NotFound
from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake, whole
from shoal.service.auth.identity import Identity

_MOST_VIEWS = 256


class Access:
    """Decides by the grants in a lake."""

    def __init__(self, store: LocalAccess) -> None:
        self.store = store
        self._views: OrderedDict[tuple[Identity, str | None, str | None], LocalLake] = OrderedDict()
        self._lock = Lock()

    def may(self, identity: Identity, pool_id: str | None, verb: Verb) -> bool:
        """Whether somebody may do something to a pool, or to the lake itself, which is None."""
        return _may(self.store.rights(), identity, pool_id, verb)

    def readers(self, pool_id: str) -> Callable[[Identity], bool]:
        """A function that says whether somebody may read a pool, by the grants of now. It waits for nothing."""
        rights = self.store.rights()
        return lambda identity: _may(rights, identity, pool_id, "read")

    def require(self, identity: Identity, pool_id: str | None, verb: Verb, asked: str | None = None) -> None:
        """Return if somebody may do something to a pool, or to the lake itself, which is None.

        NotFound if they may not know that there is such a pool: as if they had `asked` for one that is not there.
        """
        rights = self.store.rights()
        if _may(rights, identity, pool_id, verb):
            return
        if pool_id is not None and not _may(rights, identity, pool_id, "read"):
            raise NotFound(f"{asked or pool_id}: pool not found")
        name = EVERYTHING if pool_id is None else self.store.pool_name(pool_id)
        if pool_id is not None and pool_id == rights.pool:
            raise Forbidden(f"{name}: this is changed by shoal grant, revoke and tokens alone")
        way_out = f"an admin may change that: shoal grant {identity.subject} {verb} {name!r}"
        raise Forbidden(f"{name}: {identity.subject} has no {verb} here ({way_out})")

    def view(self, identity: Identity, lake: LocalLake) -> LocalLake:
        """The lake as somebody sees it: without the pools that they may not read.

        It is the same object as long as no grant changes, so that queries that were compiled before are found again.
        """
        rights = self.store.rights()
        key = identity, rights.pool, rights.tip
        with self._lock:
            if key not in self._views:
                self._views[key] = LocalLake(
                    VisibleLake(
                        whole(lake),
                        # As it is then: a transaction holds on to the view in which it was begun.
                        lambda pool_id: self.may(identity, pool_id, "read"),
                        lambda pool_id, name: self.require(identity, pool_id, "write", name),
                        author=None if identity.may_do_all else identity.subject,
                        require_create=lambda: self.require(identity, None, "admin"),
                    )
                )
            self._views.move_to_end(key)
            while len(self._views) > _MOST_VIEWS:
                self._views.popitem(last=False)
            return self._views[key]


def _may(rights: Rights, identity: Identity, pool_id: str | None, verb: Verb) -> bool:
    if pool_id is not None and pool_id == rights.pool:
        return verb == "read" and _may(rights, identity, None, "admin")
    return identity.may_do_all or rights.has(identity.subject, pool_id or EVERYTHING, verb)
