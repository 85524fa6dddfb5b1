"""What holds for every test."""

import pytest
from hypothesis import HealthCheck, settings

# The shared suites are part of the package; their assertions explain themselves like those of any test.
pytest.register_assert_rewrite("toolyard.testing")

# How long one example takes says what else the machine does. The test as a whole has its deadline.
settings.register_profile("toolyard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("toolyard")
