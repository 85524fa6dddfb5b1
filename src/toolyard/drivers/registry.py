"""The drivers by name."""

from __future__ import annotations

from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ValidationError
from toolyard.drivers.clis.claude import Claude
from toolyard.drivers.clis.codex import Codex
from toolyard.drivers.clis.gemini import Gemini
from toolyard.drivers.clis.opencode import Opencode
from toolyard.drivers.clis.qwen import Qwen
from toolyard.drivers.driver import Driver

_ALL: tuple[Driver, ...] = (Gemini(), Claude(), Codex(), Qwen(), Opencode())
DRIVERS = {each.name: each for each in _ALL}


def driver_of(name: str) -> Driver:
    """Returns the driver of a CLI. Raises ValidationError for an unknown name."""
    driver = DRIVERS.get(str(name).strip().lower())
    if driver is None:
        raise ValidationError.of("cli", f"{name!r} is not an agent CLI", hint=did_you_mean(str(name), DRIVERS))
    return driver
