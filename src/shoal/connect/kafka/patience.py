"""Waiting for a broker, a registry or a store that is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from shoal.connect.kafka.events import Event
from shoal.errors import OutcomeUnknown, StorageFailure, TooMany
from shoal.storage.backoff import backoff

T = TypeVar("T")
TRANSIENT = (StorageFailure, TooMany, OutcomeUnknown)


def patiently(what: str, act: Callable[[], T], is_over: Callable[[], bool], report: Callable[[Event], None]) -> T:
    """Do something, again and again while a part is away, until it works or all is over."""
    is_waiting = False
    for wait in backoff(0.2, 5.0):
        try:
            done = act()
        except TRANSIENT as e:
            if is_over():
                raise
            if not is_waiting:
                report(Event("waiting", {"for": what, "error": str(e)}))
                is_waiting = True
            time.sleep(wait)
            continue
        if is_waiting:
            report(Event("resumed", {"after": what}))
        return done
    raise AssertionError
