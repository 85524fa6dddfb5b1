"""What a configuration widens: rights of agents beyond the defaults, and places outside its own folder.

A configuration that was found, and not named by the user, may have none of it unless the user trusts it.
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
    """What the file at `path` puts outside its own folder, in words; `workspace` is the one that the file chooses."""
    folder = os.path.dirname(path)
    reasons: list[str] = []
    if workspace is not None and not is_beneath(os.path.realpath(workspace), os.path.realpath(folder)):
        reasons.append("a workspace outside its own folder")
    elif _keeps_tools_outside(config, folder):
        reasons.append("tool files and skills outside its own folder")
    return [*reasons, *_folders_outside(config, folder)]


def _keeps_tools_outside(config: Config, folder: str) -> bool:
    """Agents may write the skills of that place, whichever folder they work in."""
    if "workspace" not in config.toolyard.model_fields_set:
        return False
    place = os.path.join(config.base_folder(folder), config.toolyard.workspace)
    return not is_beneath(os.path.realpath(place), os.path.realpath(folder))


def _folders_outside(config: Config, folder: str) -> Iterator[str]:
    """What is read or written elsewhere for everybody, whichever folder they work in."""
    kept = config.orchestrator
    for key, paths in (
        ("snapshot_storage", (kept.snapshot_storage,)),
        ("agent_temporary_workspace", (kept.agent_temporary_workspace,)),
        ("skill_folders", config.toolyard.skill_folders),
    ):
        if any(path and not _is_inside(path, folder) for path in paths):
            yield f"{key} outside its own folder"


def _is_inside(path: str, folder: str) -> bool:
    return not path.startswith("~") and is_beneath(
        os.path.realpath(os.path.join(folder, path)), os.path.realpath(folder)
    )


def widened_rights(config: Config) -> Iterator[str]:
    """What the configuration gives agents beyond the defaults, in words."""
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
    # A server is a program of the user's, and a custom tool runs in the host's own process.
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
    # Whose files go to which provider, on whose account, is not for a repository to say; nor is it to name variables
    # of the user's where others read them.
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
