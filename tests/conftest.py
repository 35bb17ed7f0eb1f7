"""Settings of all tests. Generated tests print what replays them, and have no deadline: machines differ.

The quick tier generates the same examples every time, so that a change is judged by what it changed; the
long tier (`make test-long`) looks for new ones.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("quick", deadline=None, derandomize=True, suppress_health_check=SLOW)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=500, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("SHOAL_TESTS", "quick"))
