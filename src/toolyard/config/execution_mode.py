"""Whether the execution mode of a configuration can work at all."""

from __future__ import annotations

from toolyard.config.error_location import with_error_location
from toolyard.config.models import Config
from toolyard.core.errors import ConfigError


def check_execution_mode(config: Config) -> None:
    """Raises ConfigError where tools are files and no code may run: an agent could read of them and call none."""
    section = config.toolyard
    if section.execution_mode != "filesystem_first" or section.code_execution.enabled:
        return
    with with_error_location(config, "toolyard", "code_execution", "enabled"):
        raise ConfigError(
            "`execution_mode: filesystem_first` needs code execution: there the tools of servers are files, "
            "and an agent calls them from code. `code_execution.enabled` is false.",
            hint="Set `execution_mode: context_based`, which gives the agent every tool directly, "
            "or remove `enabled: false`.",
        )
