"""Where the commands and the code of a run's agents run, found out and announced before the run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolyard.app.injecting import injection_of
from toolyard.app.walls import proven
from toolyard.core.errors import ConfigError, SecurityError
from toolyard.core.modes import PermissionMode

if TYPE_CHECKING:
    from toolyard.team.options import RunOptions

WITHOUT_CODE: Final = "Or set `execution_mode: context_based`, which gives agents every tool directly."


def sandbox_notices(options: RunOptions) -> list[str]:
    """What the user has to know of the sandboxes. Starts one to see, and blocks meanwhile.

    Raises ConfigError where an agent without code could use no tool: where tools are files.
    """
    config = options.config
    execution = config.toolyard.code_execution
    default = config.permissions.mode or PermissionMode.STRICT
    agents: dict[PermissionMode, list[str]] = {}
    for agent in config.agents:
        if injection_of(config, agent.id).has_files and execution.enabled:
            agents.setdefault(agent.backend.permission_mode or default, []).append(agent.id)
    notices: list[str] = []
    for mode, names in agents.items():
        who = " and ".join(names)
        try:
            choice = proven(execution, options.settings, mode)
        except SecurityError as error:
            if injection_of(config, names[0]).files_first:
                needs = "`execution_mode: filesystem_first` needs code execution, which is not to be had"
                raise ConfigError(
                    f"{needs}: {error.message}",
                    where=config.source or "",
                    hint=f"{error.hint.removesuffix(' Nothing ran.')} {WITHOUT_CODE}",
                ) from error
            notices.append(f"Commands and code of {who} will be refused: {error.message} {error.hint}")
        else:
            notices += [f"Commands of {who}: {choice.note}"] if choice.note else []
    return notices
