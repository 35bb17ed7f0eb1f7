"""The two tiers of tests: the quick one runs on every change, the long one with `make test-long`."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("SHOAL_TESTS") == "long"


def examples(quick: int) -> int:
    """The number of examples to generate; `quick` is that of the quick tier."""
    return 20 * quick if IS_LONG else quick
