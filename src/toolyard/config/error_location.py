"""Naming the file and the line of a value that turns out to be wrong only where it is used.

What a rule, a preset or a host may look like is known to the layers that use them. The file is read once more to find
the line, so that nobody has to carry lines about.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from toolyard.config.loader import line_of, unusable_value_message
from toolyard.config.models import Config
from toolyard.core.errors import ConfigError


@contextlib.contextmanager
def with_error_location(config: Config, *location: str | int) -> Generator[None]:
    """While the block runs, a ConfigError that names no place gets the one of this value.

    Of a value that variables were put into, it says no more than how that was written.
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
