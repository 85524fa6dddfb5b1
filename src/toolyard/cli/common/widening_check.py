"""Finds what a configuration widens: rights of agents beyond the defaults, and paths outside its own folder.

A configuration that was found, not named by the user, may do neither unless the user trusts it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from toolyard.config.assistant import SQLITE_STORAGE
from toolyard.config.models import CodeExecution, Config, ToolyardSection
from toolyard.core.actions import Effect
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.builder import preset_rule_sets

_WIDE_MODES = frozenset({PermissionMode.BYPASS, PermissionMode.MODERATE})


def paths_outside(config: Config, path: str, workspace: str | None) -> list[str]:
    """Returns the reasons why the file at `path` reaches outside its folder; `workspace` is the one the file
    chooses.
    """
    folder = os.path.dirname(path)
    reasons: list[str] = []
    if workspace is not None and not is_beneath(os.path.realpath(workspace), os.path.realpath(folder)):
        reasons.append("a workspace outside its own folder")
    elif _keeps_tools_outside(config, folder):
        reasons.append("tool files and skills outside its own folder")
    return [*reasons, *_folders_outside(config, folder)]


def _keeps_tools_outside(config: Config, folder: str) -> bool:
    """Whether tool files and skills lie outside; agents may write the skills from any workspace."""
    if "workspace" not in config.toolyard.model_fields_set:
        return False
    root = os.path.join(config.base_folder(folder), config.toolyard.workspace)
    return not is_beneath(os.path.realpath(root), os.path.realpath(folder))


def _folders_outside(config: Config, folder: str) -> Iterator[str]:
    """Yields the folders outside that apply to every agent."""
    orchestrator = config.orchestrator
    for key, paths in (
        ("snapshot_storage", (orchestrator.snapshot_storage,)),
        ("agent_temporary_workspace", (orchestrator.agent_temporary_workspace,)),
        ("skill_folders", config.toolyard.skill_folders),
    ):
        if any(path and not _is_inside(path, folder) for path in paths):
            yield f"{key} outside its own folder"


def _is_inside(path: str, folder: str) -> bool:
    return not path.startswith("~") and is_beneath(
        os.path.realpath(os.path.join(folder, path)), os.path.realpath(folder)
    )


def widened_rights(config: Config) -> Iterator[str]:
    """Yields a description of each right that the configuration gives beyond the defaults."""
    permissions = config.permissions
    modes = {permissions.mode, *(agent.backend.permission_mode for agent in config.agents)}
    yield from (f"permission mode {mode}" for mode in sorted(_WIDE_MODES & modes))
    if permissions.allow or any(
        rule.effect is Effect.ALLOW for preset in preset_rule_sets(config) for rule in preset
    ):
        yield "allow rules"
    if permissions.moderate_roots:
        yield "further roots"
    if config.orchestrator.context_paths:
        yield "context paths"
    yield from _agent_rights(config)
    yield from _code_rights(config.toolyard.code_execution)
    if config.limits.exceeds_defaults():
        yield "higher limits for calls"
    if config.snapshots.keeps_less_than_defaults():
        yield "fewer snapshots to undo with"
    yield from _assistant_rights(config)
    # A server runs as the user's program, and a custom tool runs in Toolyard's own process.
    if config.has_servers:
        yield "MCP servers"
    if config.toolyard.max_running_servers > ToolyardSection().max_running_servers:
        yield "more servers at once"
    if config.toolyard.webhook is not None:
        yield "a webhook"
    if config.toolyard.available_custom_tools:
        yield "custom tools"


def _code_rights(execution: CodeExecution) -> Iterator[str]:
    if execution.mode == "none":
        yield "code without a sandbox"
    if execution.minimum == "landlock":
        yield "a weaker sandbox for code"
    if execution.allow_destructive:
        yield "destructive commands without a question"
    if execution.docker.network != "none" or execution.allowed_hosts:
        yield "a network for code"
    if execution.docker.image is not None:
        yield "an image for code"
    if execution.env:
        yield "variables for code"
    if execution.limits.exceeds_defaults():
        yield "higher limits for code"


def _assistant_rights(config: Config) -> Iterator[str]:
    assistant = config.assistant
    if assistant.storage != SQLITE_STORAGE or assistant.namespace:
        yield "threads of the assistant elsewhere"
    # A repository must not decide which provider receives the user's files at the user's cost, nor which variables of
    # the user are sent.
    if assistant.model or assistant.models or assistant.aliases or assistant.allowed_models:
        yield "models of the assistant"
    if assistant.exceeds_defaults():
        yield "higher limits for the assistant"
    if assistant.keeps_less_than_defaults():
        yield "threads of the assistant that go sooner"


def _agent_rights(config: Config) -> Iterator[str]:
    if any(agent.memory.allow_read_from or agent.memory.allow_write_to for agent in config.agents):
        yield "the memory of other agents"
    if any(agent.backend.fresh for agent in config.agents):
        yield "folders that are emptied at the start"
