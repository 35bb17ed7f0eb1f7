"""Real parts around Kafka. Each is started when the first test of a process asks for it, and serves all that follow.

Where a part needs a program that is not there, its tests are skipped and say so; with `CI=true` they fail.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import TypeVar

import pytest

from shoal.testing.kafka.broker import Broker, running_broker
from shoal.testing.kafka.cache import Unavailable

USERS = {"alice": "alices-password"}
"""Who may use the address of the broker that asks for a password."""
_numbers = count()

T = TypeVar("T")


@contextmanager
def _part(running: AbstractContextManager[T]) -> Iterator[T]:
    try:
        part = running.__enter__()
    except Unavailable as e:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(e))
    try:
        yield part
    finally:
        running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with _part(running_broker(tmp_path_factory.mktemp("kafka"), USERS)) as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    """The broker, started again if the test before has left it dead."""
    if not shared_broker.program.is_running():
        shared_broker.restart()
    return shared_broker


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", f"{request.node.name[:100]}-{next(_numbers)}")


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    """A topic of this name with one partition."""
    broker.create_topic(topic_name)
    return topic_name
