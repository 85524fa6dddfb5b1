"""Checks that the execution mode of a configuration is usable."""

from __future__ import annotations

from toolyard.config.error_location import with_error_location
from toolyard.config.models import Config
from toolyard.core.errors import ConfigError


def check_execution_mode(config: Config) -> None:
    """Raises ConfigError if tools are files but code execution is off: an agent could read but not call them."""
    section = config.toolyard
    if section.execution_mode != "filesystem_first" or section.code_execution.enabled:
        return
    with with_error_location(config, "toolyard", "code_execution", "enabled"):
        raise ConfigError(
            "`execution_mode: filesystem_first` needs code execution: in this mode the servers' tools are files "
            "that an agent calls from code. `code_execution.enabled` is false.",
            hint="Set `execution_mode: context_based`, which gives the agent every tool directly, "
            "or remove `enabled: false`.",
        )
