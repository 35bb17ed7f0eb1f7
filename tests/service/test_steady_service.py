"""A service serves any number of requests without holding more after them."""

from __future__ import annotations

import pytest
from bench import steady


@pytest.mark.long
def test_nothing_grows_with_the_number_of_requests() -> None:
    samples, done = steady.run(5000)
    assert done.total() == 5000
    early, late = samples[2:5], samples[-3:]
    assert max(s.memory for s in late) < 1.15 * max(s.memory for s in early)
    assert min(s.files for s in late) <= max(s.files for s in early)
    assert min(s.threads for s in late) <= max(s.threads for s in early)
