"""The calls under the name `_massgen_runtime`, where nothing but this package is there."""

import toolyard_runtime
from toolyard_runtime import *  # noqa: F403

__all__ = toolyard_runtime.__all__
