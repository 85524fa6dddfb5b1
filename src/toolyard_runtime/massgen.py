"""The calls under the name `_massgen_runtime`, where nothing but this package is there."""

from toolyard_runtime import *  # noqa: F403 - all of it, and nothing else
from toolyard_runtime import __all__  # noqa: F401
