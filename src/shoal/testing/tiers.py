"""The two tiers of tests: the quick one runs before anything lands, the long one (`make test-long`) when asked for."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("SHOAL_TESTS") == "long"


def examples(quick: int) -> int:
    """How many examples to generate, given the number for the quick tier."""
    return 20 * quick if IS_LONG else quick
