"""The verbs of files that stay where they are: attach and detach.

Through a service, a caller can attach what its source policy lets queries read, which is nothing by default.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.access.view import policy_of
from shoal.api.branch import Attach, Attachable, Detach
from shoal.api.infos import AttachedFile
from shoal.errors import Forbidden, InvalidInput
from shoal.ids import Id, to_text
from shoal.lake import attaching
from shoal.lake.objects import DataObject
from shoal.lake.pools import Pool
from shoal.local.executor import StoreExecutor, implements, operation, stored_note
from shoal.model.text import format_type
from shoal.sources.in_place import find_files


@implements(Attach)
def attach(lake: StoreExecutor, request: Attach) -> str:
    """Attach files; the id of the commit."""
    pool, op, note = lake.writable(request.pool), operation(request.op), stored_note(request.note)
    pool.refs().branch(request.branch)

    def act() -> Id:
        objects = [o for o in _described(lake, pool, request.uris) if o.count]
        return attaching.attach(pool, request.branch, objects, note, op)

    return to_text(pool.committer.once(op, request.branch, act))


@implements(Attachable)
def attachable(lake: StoreExecutor, request: Attachable) -> list[AttachedFile]:
    """The files that would be attached; the errors are those of `attach`."""
    pool = lake.writable(request.pool)
    tip = pool.refs().branch(request.branch).commit
    objects = _described(lake, pool, request.uris)
    attaching.require_new(pool, tip, request.branch, objects)
    return [_shown(o) for o in objects]


def _described(lake: StoreExecutor, pool: Pool, uris: Sequence[str]) -> list[DataObject]:
    """The data objects that files would be, by their footers."""
    if not uris:
        raise InvalidInput("no files named to attach")
    settings = pool.config.settings
    if settings.primary or settings.partition or settings.policy:
        # Footers do not tell which keys or partitions a file has.
        what = "a primary key" if settings.primary else "partitions" if settings.partition else "a merge policy"
        raise InvalidInput(f"{pool.config.name}: files cannot be attached to a pool with {what} (load them instead)")
    policy = policy_of(lake.root)
    if policy is not None and not policy.schemes:
        raise Forbidden("a service attaches no files and no URLs (attach them where the lake is, or load them)")
    candidates = attaching.read_candidates([version for uri in uris for version in find_files(uri, policy)])
    types = attaching.folder_types(candidates)
    return [attaching.describe(candidate, types, pool.config.key) for candidate in candidates]


def _shown(o: DataObject) -> AttachedFile:
    assert o.external is not None
    assert o.shapes is not None
    shape = format_type(o.shapes[0][0])
    return AttachedFile(o.external.uri, o.count, o.size + o.index_size, shape, o.min, o.max)


@implements(Detach)
def detach(lake: StoreExecutor, request: Detach) -> str:
    """Take attached files out of a branch."""
    pool, op, note = lake.writable(request.pool), operation(request.op), stored_note(request.note)
    return to_text(
        pool.committer.once(op, request.branch, lambda: attaching.detach(pool, request.branch, request.names, note, op))
    )
