"""Determines, before a run begins, which sandbox the agents' commands and code use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolyard.app.execution_mode import FILES_FIRST, ToolInjection, tool_injection_for
from toolyard.app.sandbox_preflight import runs_code, sandbox_hint, tested_sandbox
from toolyard.app.toolsets import Toolset, tools_of
from toolyard.core.errors import ConfigError, SecurityError
from toolyard.core.permission_modes import PermissionMode
from toolyard.team.check.report import Finding

if TYPE_CHECKING:
    from toolyard.config.models import Agent, ToolyardSection
    from toolyard.team.options import RunOptions

_CONTEXT_BASED_HINT: Final = "Or set `execution_mode: context_based`, which gives agents every tool directly."


def sandbox_notices(options: RunOptions) -> list[str]:
    """Returns notices about the sandboxes. Starts one to probe it, and blocks meanwhile.

    Raises ConfigError if a sandbox is not available and the run must not start without it.
    """
    config = options.config
    execution = config.toolyard.code_execution
    default = config.permissions.mode or PermissionMode.STRICT
    agents: dict[PermissionMode, list[str]] = {}
    for agent in config.agents:
        if execution.enabled and needs_sandbox(agent, tool_injection_for(config, agent.id)):
            agents.setdefault(agent.backend.permission_mode or default, []).append(agent.id)
    notices: list[str] = []
    for mode, names in agents.items():
        who = " and ".join(names)
        try:
            choice = tested_sandbox(execution, options.settings, mode)
        except SecurityError as error:
            refusal = refusal_without_sandbox(config.toolyard, error)
            if refusal is not None:
                raise ConfigError(refusal.text, where=config.source or "", hint=refusal.hint) from error
            notices.append(f"Commands and code of {who} will be refused: {error.message} {error.hint}")
        else:
            notices += [f"Commands of {who}: {choice.note}"] if choice.note else []
    return notices


def needs_sandbox(agent: Agent, injection: ToolInjection) -> bool:
    """Whether the agent can run commands or code, according to the configuration."""
    if injection.files_first:
        return True
    return injection.has_files and runs_code(tools_of(Toolset.CLAUDE).values(), agent)


def refusal_without_sandbox(section: ToolyardSection, error: SecurityError) -> Finding | None:
    """Returns why a run must not start without a sandbox; None if it may.

    A run requires the sandbox that the configuration names, and any sandbox if tools are files.
    """
    if section.code_execution.names_sandbox:
        return Finding(error.message, sandbox_hint(error))
    if section.execution_mode == FILES_FIRST:
        needs = "`execution_mode: filesystem_first` needs code execution, and there is no sandbox for it"
        return Finding(f"{needs}: {error.message}", f"{error.hint} {_CONTEXT_BASED_HINT}")
    return None
