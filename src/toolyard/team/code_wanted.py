"""Where tools are files, an agent that can run no code can use none of them: said before the run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolyard.app.injecting import injection_of
from toolyard.app.walls import proven
from toolyard.core.errors import ConfigError, SecurityError
from toolyard.core.modes import PermissionMode

if TYPE_CHECKING:
    from toolyard.team.options import RunOptions

WITHOUT_CODE: Final = "Or set `execution_mode: context_based`, which gives agents every tool directly."


def check_code_can_run(options: RunOptions) -> None:
    """Starts a sandbox to see, and blocks meanwhile. Raises ConfigError."""
    config = options.config
    if not injection_of(config, config.agents[0].id).files_first:
        return
    default = config.permissions.mode or PermissionMode.STRICT
    for mode in {agent.backend.permission_mode or default for agent in config.agents}:
        try:
            proven(config.toolyard.code_execution, options.settings, mode)
        except SecurityError as error:
            raise ConfigError(
                f"`execution_mode: filesystem_first` needs code execution, which is not to be had: {error.message}",
                where=config.source or "",
                hint=f"{error.hint.removesuffix(' Nothing ran.')} {WITHOUT_CODE}",
            ) from error
