"""A raw pool, and pools for what comes of it, in a lake in memory."""

from __future__ import annotations

from itertools import count

import pytest

import shoal
from shoal.testing.etl_scenes import Scene

_numbers = count()


@pytest.fixture
def scene() -> Scene:
    return Scene(shoal.create(f"memory://etl-scene-{next(_numbers)}"))
