"""The examples of the guide to Kafka, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.testing.kafka.broker import Broker
from shoal.testing.pages import require_what_it_says

GUIDE = Path(__file__).parents[3] / "docs" / "kafka.md"


@pytest.fixture
def topics(broker: Broker) -> Iterator[None]:
    yield
    for topic in ("orders", "invoices"):
        broker.delete_topic(topic)


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("topics")
def test_every_example_of_the_guide_prints_what_it_says(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERS", broker.bootstrap)
    require_what_it_says(GUIDE, tmp_path, monkeypatch)
