"""What takes data away for good."""

from __future__ import annotations

from shoal.api.protocol import Vacuumed
from shoal.model.values import array, int64, record
from shoal.service.answers import Answer, id_of
from shoal.service.calls import Call, id_texts


def vacuum_lake(call: Call) -> Answer:
    """Vacuum all pools."""
    return _vacuumed(call.lake.vacuum(grace=call.number("grace"), dry_run=call.is_set("dryrun")))


def vacuum_pool(call: Call) -> Answer:
    """Remove what nothing reaches."""
    return _vacuumed(call.pool().vacuum(grace=call.number("grace"), dry_run=call.is_set("dryrun")))


def _vacuumed(done: Vacuumed) -> Answer:
    return record([("objects", int64(done.objects)), ("size", int64(done.size))])


def vacuum_revision(call: Call) -> Answer:
    """The same as a vacuum of the pool, with the ids of the data objects that go."""
    pool = call.pool()
    pool.resolve(call.path["revision"])
    garbage = pool.vacuum_objects(grace=call.number("grace"), dry_run=call.is_set("dryrun"))
    names = (listed.key.rpartition("/")[2] for listed in garbage.data)
    ids = dict.fromkeys(name.partition(".")[0] for name in names)
    return record([("object_ids", array(map(id_of, ids)))])


def vacate(call: Call) -> None:
    """Let history begin with a commit."""
    call.pool().vacate(call.path["commit"])


def purge(call: Call) -> Answer:
    """Remove data objects from all of history."""
    asked = call.record({"object_ids": list})
    return record([("object_ids", array(map(id_of, call.pool().purge(id_texts(asked.get("object_ids", []))))))])
