from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.engines.interp.functions.table import FUNCTIONS
from shoal.model.text import format_value
from shoal.testing.queries import parse_values


def _call(name: str, args: str) -> str:
    return format_value(FUNCTIONS[name](*parse_values(args)))


@pytest.fixture
def call() -> Callable[[str, str], str]:
    """Calls a function with arguments that are written as ZSON, one after the other."""
    return _call
