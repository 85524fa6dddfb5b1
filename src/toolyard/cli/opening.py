"""From a command's options to a workspace: which configuration counts, and which folder is meant.

A configuration file that is merely found in a folder may come from anybody who can write there (a cloned repository,
say). It may tighten the policy; to widen it, or to take variables, the user has to name the file with `--config`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from toolyard.config.agents import agent_of, check_memory_rights
from toolyard.config.assistant import IN_STATE
from toolyard.config.blame import blaming
from toolyard.config.load import find_config, load_config
from toolyard.config.models import CodeExecution, Config
from toolyard.core.actions import Effect
from toolyard.core.errors import ConfigError
from toolyard.core.modes import PermissionMode
from toolyard.core.paths import is_beneath
from toolyard.policy.build import presets
from toolyard.workspace.layout import AGENTS, WORKSPACE, agent_folder

_SEVERAL = 2
_WIDE_MODES = frozenset({PermissionMode.BYPASS, PermissionMode.MODERATE})


@dataclass(frozen=True, slots=True)
class Place:
    config: Config
    workspace: str


def find_place(
    workspace: str | None, config_file: str | None, agent: str | None = None, *, acts: bool = False
) -> Place:
    """The configuration in force and the workspace's folder.

    `--workspace` goes first, then the agent's `cwd`, then its folder in `toolyard.workspace` or, without agents, that
    folder itself, all relative to the file that says so; without any of them it is the current folder. A command that
    `acts` as an agent has to be told which one.
    """
    here = os.getcwd()
    found = _found(workspace, here) if config_file is None else None
    config = _as_it_is_run(load_config(config_file or found, is_found=found is not None), here)
    _check_hosts(config)
    check_memory_rights(config)
    _check_agent(config, agent, acts=acts, chosen_by_file=workspace is None)
    place = Place(config, _workspace(config, workspace, agent, here))
    if found is not None:
        _refuse_widening(place, found, chosen_by_file=workspace is None)
    _make_folders(place, chosen_by_file=workspace is None)
    return place


def _as_it_is_run(config: Config, here: str) -> Config:
    """With the root that `toolyard run` gives a file that names none: what a run keeps and needs is there.

    That a file is for runs is known by its `execution_mode`, or by what a run has left.
    """
    section = config.toolyard
    if config.source is None or not config.agents or "workspace" in section.model_fields_set:
        return config
    is_for_runs = "execution_mode" in section.model_fields_set
    if not is_for_runs and not os.path.isdir(os.path.join(config.folder(here), section.workspace, AGENTS)):
        return config
    return config.model_copy(update={"toolyard": section.model_copy(update={"workspace": section.workspace})})


def _make_folders(place: Place, *, chosen_by_file: bool) -> None:
    """The folders that a configuration speaks of. One that was only found speaks of none outside its own folder."""
    if place.config.source is None:
        return
    wanted = [place.workspace] if chosen_by_file else []
    if "workspace" in place.config.toolyard.model_fields_set:
        wanted.append(os.path.join(place.config.folder(os.getcwd()), place.config.toolyard.workspace))
    for folder in wanted:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the folder {folder} cannot be made: {error.strerror}.", where=place.config.source or ""
            ) from error


def _check_agent(config: Config, agent: str | None, *, acts: bool, chosen_by_file: bool) -> None:
    """Of several agents none is guessed: each has rights of its own, and perhaps a folder."""
    if agent is not None or len(config.agents) < _SEVERAL:
        return
    ids = ", ".join(each.id for each in config.agents)
    if acts:
        raise ConfigError(
            f"the configuration has several agents ({ids}), and each has its own rights.",
            where=config.source or "",
            hint=f"Say which one is meant: --agent {config.agents[0].id}",
        )
    has_root = "workspace" in config.toolyard.model_fields_set
    if chosen_by_file and not has_root and any(each.backend.cwd for each in config.agents):
        raise ConfigError(
            f"its agents ({ids}) have folders of their own, and no `toolyard.workspace` that they share.",
            where=config.source or "",
            hint=f"Say whose is meant: --agent {config.agents[0].id}, or --workspace DIR",
        )


def _check_hosts(config: Config) -> None:
    """Before anything runs: the sandbox would find it out with the first command."""
    hosts = config.toolyard.code_execution.allowed_hosts
    if not hosts:
        return
    from toolyard.sandbox.proxy_rules import Entry  # most configurations name none

    for number, host in enumerate(hosts):
        with blaming(config, "toolyard", "code_execution", "allowed_hosts", number):
            Entry.parse(host)


def _found(workspace: str | None, here: str) -> str | None:
    """The file in the workspace that was named, else the one in the current folder."""
    return (find_config(workspace) if workspace is not None else None) or find_config(here)


def _workspace(config: Config, workspace: str | None, agent: str | None, here: str) -> str:
    if workspace is not None:
        return os.path.abspath(workspace)
    base = config.folder(here)
    chosen = agent_of(config, agent)
    if chosen is not None and chosen.backend.cwd:
        return os.path.join(base, chosen.backend.cwd)
    if config.source and "workspace" in config.toolyard.model_fields_set:
        root = os.path.join(base, config.toolyard.workspace)
        return root if chosen is None else os.path.join(root, agent_folder(chosen.id, WORKSPACE))
    return here


def _refuse_widening(place: Place, path: str, *, chosen_by_file: bool) -> None:
    reasons = [*_widenings(place.config)]
    if chosen_by_file and not is_beneath(os.path.realpath(place.workspace), os.path.realpath(os.path.dirname(path))):
        reasons.append("a workspace outside its own folder")
    elif _keeps_tools_outside(place.config, os.path.dirname(path)):
        reasons.append("tool files and skills outside its own folder")
    reasons += _folders_outside(place.config, os.path.dirname(path))
    if reasons:
        raise ConfigError(
            f"it widens what agents may do ({', '.join(reasons)}) and was only found, not named.",
            where=path,
            hint=f"If you trust it, say so: --config {path}",
        )


def _keeps_tools_outside(config: Config, folder: str) -> bool:
    """Agents may write the skills of that place, whichever folder they work in."""
    if "workspace" not in config.toolyard.model_fields_set:
        return False
    place = os.path.join(config.folder(folder), config.toolyard.workspace)
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


def _widenings(config: Config) -> Iterator[str]:
    permissions = config.permissions
    modes = {permissions.mode, *(agent.backend.permission_mode for agent in config.agents)}
    yield from (f"permission mode {mode}" for mode in sorted(_WIDE_MODES & modes))
    if permissions.allow or any(rule.effect is Effect.ALLOW for preset in presets(config) for rule in preset):
        yield "allow rules"
    if permissions.moderate_roots:
        yield "further roots"
    if config.orchestrator.context_paths:
        yield "context paths"
    yield from _of_agents(config)
    yield from _of_code(config.toolyard.code_execution)
    if config.limits.exceeds_defaults():
        yield "higher limits for calls"
    if config.snapshots.keeps_less_than_defaults():
        yield "fewer snapshots to undo with"
    yield from _of_assistant(config)
    # A server is a program of the user's, and a custom tool runs in the host's own process.
    if config.has_servers:
        yield "MCP servers"
    if config.toolyard.available_custom_tools:
        yield "custom tools"


def _of_code(execution: CodeExecution) -> Iterator[str]:
    if execution.mode == "none":
        yield "code without a sandbox"
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


def _of_assistant(config: Config) -> Iterator[str]:
    assistant = config.assistant
    if assistant.storage != IN_STATE or assistant.namespace:
        yield "threads of the assistant elsewhere"
    # Whose files go to which provider, on whose account, is not for a repository to say; nor is it to name variables
    # of the user's where others read them.
    if assistant.model or assistant.models or assistant.aliases or assistant.allowed_models:
        yield "models of the assistant"
    if assistant.exceeds_defaults():
        yield "higher limits for the assistant"
    if assistant.keeps_less_than_defaults():
        yield "threads of the assistant that go sooner"


def _of_agents(config: Config) -> Iterator[str]:
    if any(agent.memory.allow_read_from or agent.memory.allow_write_to for agent in config.agents):
        yield "the memory of other agents"
    if any(agent.backend.fresh for agent in config.agents):
        yield "folders that are emptied at the start"
