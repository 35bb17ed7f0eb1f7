"""Real parts around Kafka. Each is started when the first test of a process asks for it, and serves all that follow.

Where a part needs a program that is not there, its tests are skipped and say so; with `CI=true` they fail. A part that
a test has left dead is started again for the next one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import TypeVar

import pytest

from shoal.testing.kafka.broker import Broker, running_broker
from shoal.testing.kafka.cache import Unavailable, find_program
from shoal.testing.kafka.debezium import Debezium, running_debezium
from shoal.testing.kafka.postgres import Postgres, running_postgres
from shoal.testing.kafka.registry import Registry, running_registry

USERS = {"alice": "alices-password"}
"""Who may use the address of the broker that asks for a password."""
_numbers = count()

T = TypeVar("T")


@contextmanager
def _skipping() -> Iterator[None]:
    try:
        yield
    except Unavailable as e:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(e))


@contextmanager
def _part(running: AbstractContextManager[T]) -> Iterator[T]:
    with ExitStack() as ending:
        with _skipping():
            part = ending.enter_context(running)
        yield part


@pytest.fixture
def maven() -> None:
    """For tests that run Maven."""
    with _skipping():
        find_program("java")
        find_program("mvn")


# ---- one of each for all tests of a process


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with _part(running_broker(tmp_path_factory.mktemp("kafka"), USERS)) as broker:
        yield broker


@pytest.fixture(scope="session")
def shared_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with _part(running_registry(tmp_path_factory.mktemp("registry"))) as registry:
        yield registry


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[Postgres]:
    with _part(running_postgres()) as postgres:
        yield postgres


@pytest.fixture(scope="session")
def shared_debezium(
    tmp_path_factory: pytest.TempPathFactory, shared_broker: Broker, shared_postgres: Postgres
) -> Iterator[Debezium]:
    with _part(running_debezium(tmp_path_factory.mktemp("debezium"), shared_broker, shared_postgres)) as debezium:
        yield debezium


# ---- what tests ask for


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    """The broker."""
    if not shared_broker.program.is_running():
        shared_broker.restart()
    return shared_broker


@pytest.fixture
def registry(shared_registry: Registry) -> Registry:
    """The schema registry. Its schemas are those of all tests: a subject needs a name of its own, as a topic does."""
    if not shared_registry.program.is_running():
        shared_registry.restart()
    return shared_registry


@pytest.fixture
def postgres(shared_postgres: Postgres) -> Postgres:
    """PostgreSQL."""
    if not shared_postgres.program.is_running():
        shared_postgres.restart()
    return shared_postgres


@pytest.fixture
def debezium(shared_debezium: Debezium, broker: Broker, postgres: Postgres) -> Debezium:
    """Debezium, beside a broker and a PostgreSQL that run."""
    if not shared_debezium.program.is_running():
        shared_debezium.restart()
    return shared_debezium


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", f"{request.node.name[:100]}-{next(_numbers)}")


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    """A topic of this name with one partition."""
    broker.create_topic(topic_name)
    return topic_name


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """An empty database in PostgreSQL."""
    name = f"test{next(_numbers)}"
    postgres.create_database(name)
    yield name
    if postgres.program.is_running():
        postgres.drop_database(name)
