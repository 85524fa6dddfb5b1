"""Adds file and line to errors about configuration values that are validated only where they are used.

The syntax of rules, presets and hosts is known only to the layers that use them. The file is parsed again to find the
line, so that line numbers need not be passed around.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from toolyard.config.loader import line_of, unusable_value_message
from toolyard.config.models import Config
from toolyard.core.errors import ConfigError


@contextlib.contextmanager
def with_error_location(config: Config, *location: str | int) -> Generator[None]:
    """Adds this value's location to a ConfigError without one that is raised in the block.

    If the value contains expanded variables, the message shows only the text as written, because it may be a secret.
    """
    try:
        yield
    except ConfigError as error:
        if error.where or config.source is None:
            raise
        line = line_of(config.source, location)
        where = f"{config.source}:{line}" if line else config.source
        template = config.as_written("", *location)
        message, hint = (
            (f"a value {unusable_value_message(template)}", "") if template else (error.message, error.hint)
        )
        raise ConfigError(message, where=where, hint=hint) from None
