"""Another name of `toolyard_runtime`, for code that was written for it."""

from toolyard_runtime import *  # noqa: F403 - all of it, and nothing else
from toolyard_runtime import __all__  # noqa: F401
