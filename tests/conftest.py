"""The shared suites are part of the package; their assertions explain themselves like those of any test."""

import pytest

pytest.register_assert_rewrite("toolyard.testing")
