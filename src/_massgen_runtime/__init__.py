"""Another name of `toolyard_runtime`, for code that was written for it."""

import toolyard_runtime
from toolyard_runtime import *  # noqa: F403

__all__ = toolyard_runtime.__all__
