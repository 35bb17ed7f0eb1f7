"""What the service says of itself and of its lake."""

from __future__ import annotations

from shoal.model import types as t
from shoal.model.values import Value, array, int64, record, string
from shoal.service.answers import Answer, EventStream, Text, id_of
from shoal.service.calls import Call
from shoal.service.metrics import MEDIA_TYPE
from shoal.version import VERSION


def version(call: Call) -> Answer:
    """The version of Shoal."""
    return record([("version", string(VERSION))])


def health(call: Call) -> Answer:
    """That the service is there."""
    return Text("ok\n")


def metrics(call: Call) -> Answer:
    """Figures for Prometheus."""
    return Text(call.service.metrics.show(), MEDIA_TYPE)


def events(call: Call) -> Answer:
    """What happens from now on, as server-sent events."""
    return EventStream()


def root(call: Call) -> Answer:
    """What the service was told to show, or where to go from here."""
    content = call.service.settings.root_content
    return Text("Shoal (see /openapi.json)\n") if content is None else Text(content)


def lake(call: Call) -> Answer:
    """What the lake says of itself."""
    status = call.lake.status()
    features = array(map(string, status.features)) if status.features else Value(t.array(t.STRING), ())
    return record([
        ("id", id_of(status.id)),
        ("version", int64(status.version)),
        ("features", features),
        ("pools", int64(status.pools)),
    ])  # fmt: skip
