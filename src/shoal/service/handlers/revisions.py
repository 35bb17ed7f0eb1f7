"""Branches, tags and commits: names, history, and what brings one into the other."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.errors import InvalidInput
from shoal.ids import to_text
from shoal.lake import branches
from shoal.lake.branches import MAIN
from shoal.lake.commits import show_commit
from shoal.lake.objects import in_order, show_object
from shoal.local.pool import LocalPool
from shoal.model import types as t
from shoal.model.values import Value, record, string
from shoal.service.answers import Answer, commit_response, gathered, id_of
from shoal.service.calls import Call, id_texts
from shoal.service.handlers.pools import branch_update


def list_branches(call: Call) -> Answer:
    """All branches."""
    return [branches.show_ref(ref) for ref in call.pool().inner.refs().branches()]


def list_tags(call: Call) -> Answer:
    """All tags."""
    return [branches.show_ref(ref) for ref in call.pool().inner.refs().tags()]


def create_branch(call: Call) -> Answer:
    """A new branch at a commit."""
    pool, name, at = _named_place(call)
    pool.create_branch(name, at, id=call.operation())
    call.service.publish("branch-update", pool.id, branch=name)
    return branches.show_ref(pool.inner.refs().branch(name))


def create_tag(call: Call) -> Answer:
    """A new tag at a commit."""
    pool, name, at = _named_place(call)
    pool.create_tag(name, at, id=call.operation())
    call.service.publish("branch-update", pool.id, branch=name)
    return branches.show_ref(pool.inner.refs().tag(name))


def _named_place(call: Call) -> tuple[LocalPool, str, str]:
    asked = call.record({"name": str, "commit": object})
    if not asked.get("name"):
        raise InvalidInput("the body has to have a name and a commit")
    at = asked.get("commit", MAIN)
    return call.pool(), asked["name"], at if isinstance(at, str) else id_texts([at], "commit")[0]


def show_branch(call: Call) -> Answer:
    """The commit that a branch points at."""
    tip = call.pool().inner.refs().branch(call.path["branch"]).commit
    return commit_response(None if tip is None else to_text(tip), call.warnings)


def drop_branch(call: Call) -> None:
    """Remove a branch."""
    pool = call.pool()
    pool.drop_branch(call.path["branch"], id=call.operation())
    call.service.publish("branch-delete", pool.id, branch=call.path["branch"])


def drop_tag(call: Call) -> None:
    """Remove a tag."""
    pool = call.pool()
    pool.drop_tag(call.path["tag"], id=call.operation())
    call.service.publish("branch-delete", pool.id, branch=call.path["tag"])


def resolve(call: Call) -> Answer:
    """The commit that a commitish stands for."""
    return record([("commit", id_of(call.pool().resolve(call.path["revision"])))])


def log(call: Call) -> Answer:
    """Commits, newest first."""
    inner = call.pool().inner
    return gathered(map(show_commit, inner.log(inner.resolve(call.path["revision"]))))


def objects(call: Call) -> Answer:
    """Data objects, in the order of the pool key."""
    inner = call.pool().inner
    return gathered(map(show_object, inner.snapshot(inner.resolve(call.path["revision"])).objects()))


def diff(call: Call) -> Answer:
    """What one commit has and another has not, as data objects or as values."""
    pool = call.pool()
    if "old" not in call.params or "new" not in call.params:
        raise InvalidInput("the parameters old and new have to name two commits")
    old, new = call.params["old"], call.params["new"]
    if call.is_set("values"):
        return _sided(pool.diff_values(old, new), "value")
    key = pool.inner.config.key
    patch = pool.inner.snapshots.between(pool.inner.resolve(old), pool.inner.resolve(new))
    sides = [("+", o) for o in in_order(key, list(patch.adds))] + [("-", o) for o in in_order(key, list(patch.deletes))]
    return _sided(((side, show_object(o)) for side, o in sides), "object")


def _sided(found: Iterator[tuple[str, Value]], name: str) -> Iterator[Value]:
    return (record([("side", string(side)), (name, value)]) for side, value in found)


def merge(call: Call) -> Answer:
    """Bring the changes of a branch into another."""
    pool = call.pool()
    commit = pool.merge(call.path["child"], call.path["branch"], **call.note(), id=call.operation())
    branch_update(call, pool, call.path["branch"], commit)
    return commit_response(commit, call.warnings)


def revert(call: Call) -> Answer:
    """Take a commit back."""
    pool = call.pool()
    commit = pool.revert(call.path["commit"], branch=call.path["branch"], **call.note(), id=call.operation())
    branch_update(call, pool, call.path["branch"], commit)
    return commit_response(commit, call.warnings)


def rebase(call: Call) -> Answer:
    """Replay the commits of a branch on the tip of another."""
    pool = call.pool()
    commit = pool.rebase(call.path["branch"], call.path["onto"], id=call.operation())
    call.service.publish("branch-update", pool.id, branch=call.path["branch"])
    return record([("commit", id_of(commit))])


def commit_status(call: Call) -> Answer:
    """What became of an operation, by its id."""
    done = call.pool().done(call.path["id"], call.path["branch"])
    return record([("commit", id_of(done)), ("is_done", Value(t.BOOL, done is not None))])
