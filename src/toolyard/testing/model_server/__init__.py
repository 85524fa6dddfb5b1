"""Deprecated alias of `toolyard.testing.mock_model`; it will be removed in the next release."""

from toolyard.testing.mock_model import *  # noqa: F403 - an alias has every name
from toolyard.testing.mock_model import __all__  # noqa: F401
