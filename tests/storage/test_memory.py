from __future__ import annotations

import pytest

from shoal.storage.memory import MemoryStore
from shoal.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore("test")
