"""The calls under the name `_massgen_runtime`, for sandboxes that contain only this package."""

from toolyard_runtime import *  # noqa: F403 - all of it, and nothing else
from toolyard_runtime import __all__  # noqa: F401
