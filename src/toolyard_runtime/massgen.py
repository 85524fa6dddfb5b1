"""The calls under the name `_massgen_runtime`, where nothing but this package is there."""

from toolyard_runtime import *  # noqa: F403
from toolyard_runtime import __all__
