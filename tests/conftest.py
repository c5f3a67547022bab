"""What every test shares: how hypothesis searches, and no clock but ours."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.broker.fixtures"]

# The machines are small and noisy, so no example has a deadline; CI searches from one seed.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=5_000)
settings.load_profile(
    os.environ.get("TRUSTFOLD_TEST_PROFILE", "ci" if os.environ.get("CI") else "default")
)
