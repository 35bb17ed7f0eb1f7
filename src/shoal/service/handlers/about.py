"""What the service says of itself and of its lake."""

from __future__ import annotations

from shoal.model.values import record, string
from shoal.service.answers import Answer, EventStream, Text
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
    """The configured content, or a pointer to the description."""
    content = call.service.settings.root_content
    return Text("Shoal (see /openapi.json)\n") if content is None else Text(content)
