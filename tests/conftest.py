"""Settings of all tests. Generated tests print what replays them, and have no deadline: machines differ."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "shoal", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("shoal")
