"""Finds the workspace whose snapshots, skills, memory or threads are meant, perhaps from a folder inside it.

A workspace is never guessed, because a restore in the wrong folder would be a surprise. A command that reads is
refused with a hint that names the workspace; one that adds continues with a warning that it starts separate data.
"""

from __future__ import annotations

import contextlib
import enum
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import click

from toolyard.assistant.threads.sqlite_store import FILE as THREADS_FILE
from toolyard.cli.common.resolve_workspace import ResolvedWorkspace, resolve_workspace
from toolyard.config.loader import find_config
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.config.suggestions import did_you_mean
from toolyard.core.agent_folder_names import AGENTS, COMMUNITY, folder_name
from toolyard.core.errors import ConfigError
from toolyard.core.paths import is_beneath, relative_to
from toolyard.core.text import printable
from toolyard.storage.state_folder import state_dir
from toolyard.workspace.agent_paths import UNNAMED_AGENT, AgentPaths
from toolyard.workspace.layout import MEMORY, SKILLS
from toolyard.workspace.layout_registry import find_membership

_PACKS = "snapshots/packs"
"""Empty if snapshots were looked up but never taken."""


class WorkspaceData(enum.Enum):
    """The kind of data that a command works on."""

    SNAPSHOTS = "snapshots"
    SKILLS = "skills"
    MEMORY = "memory"
    SHARED = "other agents"
    THREADS = "threads"


@dataclass(frozen=True, slots=True)
class WorkspaceOptions:
    """The options that select a workspace."""

    config_file: str | None
    workspace: str | None
    agent: str | None
    state: str | None


def resolve_data_workspace(
    data: WorkspaceData, where: WorkspaceOptions, *, acts_as_agent: bool = False, adds: bool = False
) -> ResolvedWorkspace:
    """Like `resolve_workspace`, but minds an enclosing workspace if the current folder has no such data of its
    own.
    """
    if where.workspace is None and where.config_file is None:
        settings = Settings.from_environment()
        _check_enclosing_workspace(
            data, os.path.realpath(os.getcwd()), where.state or settings.state_home, settings.home, adds=adds
        )
    resolved = resolve_workspace(
        where.workspace, where.config_file, where.agent, acts_as_agent=acts_as_agent, needs_rights=False
    )
    resolved.warn_untrusted()
    return resolved


def require_agent(
    config: Config, home: AgentPaths, agent: str | None, more: Iterable[str] = (), *, adds: bool = False
) -> None:
    """Raises ConfigError for an agent without any data, which is a typo or a missing --config.

    A configuration with agents has already been checked. `more` are agents without a folder. With `adds`, only warns
    that the agent is new if others are known.
    """
    if agent is None or agent == UNNAMED_AGENT or config.agents:
        return
    folders = {name for part in (AGENTS, SKILLS) for name in _list_folder(os.path.join(home.root, part))}
    known = {name for name in folders - {COMMUNITY} if not name.startswith(".")} | {name for name in more if name}
    if agent not in known and folder_name(agent) not in known:
        suggestion = did_you_mean(agent, known - {UNNAMED_AGENT}) if known - {UNNAMED_AGENT} else ""
        if adds:
            if suggestion:
                click.echo(printable(f"Agent {agent} is new here. {suggestion}"), err=True)
            return
        raise ConfigError(
            f'there is no data of an agent "{agent}" in {home.root}.',
            where=config.source or "",
            hint=suggestion or "If agents are configured, pass that file with --config.",
        )


def _check_enclosing_workspace(
    data: WorkspaceData, here: str, state_home: str, user_home: str, *, adds: bool
) -> None:
    if find_config(here) is not None or _has_own_data(data, here, state_home):
        return
    parents = list(_parent_folders(here, os.path.realpath(user_home)))
    found = _agent_folder_hint(here, state_home) or _enclosing_workspace_hint(here, parents, state_home)
    if found is None:
        return
    statement, way = found
    if not adds:
        local = "" if data is WorkspaceData.SHARED else " For this folder only: --workspace ."
        raise ConfigError(f"{statement} and has no {data.value} of its own.", hint=f"{way}{local}")
    click.echo(printable(f"{statement}. The data added here is separate from it. {way}"), err=True)


def _agent_folder_hint(here: str, state_home: str) -> tuple[str, str] | None:
    """For a folder outside the root that an agent works in: returns a statement and the way to its root."""
    found = find_membership(here, state_home)
    if found is None or is_beneath(here, found.root):
        return None
    file = shlex.quote(found.config) if os.path.isfile(found.config) else "FILE"
    statement = f"{here} is where {found.agent} of {found.root} works"
    return statement, f"For that one: pass its configuration with --config {file} --agent {shlex.quote(found.agent)}."


def _enclosing_workspace_hint(here: str, parents: list[str], state_home: str) -> tuple[str, str] | None:
    """For a folder inside a workspace: returns a statement and the way to that workspace."""
    found = next((folder for folder in parents if _is_workspace(folder, state_home)), None)
    if found is None:
        return None
    return f"{here} is inside the workspace {found}", _way_to_workspace(here, found, parents, state_home)


def _parent_folders(here: str, user_home: str) -> Iterator[str]:
    """Yields the parent folders, nearest first, below the user's home and on the same file system."""
    with contextlib.suppress(OSError):
        device = os.stat(here).st_dev
        folder = os.path.dirname(here)
        while folder not in {user_home, os.path.dirname(folder)} and os.stat(folder).st_dev == device:
            yield folder
            folder = os.path.dirname(folder)


def _has_own_data(data: WorkspaceData, here: str, state_home: str) -> bool:
    """Whether the folder has such data itself; links in an agent's folder lead to its root and do not count."""
    match data:
        case WorkspaceData.SNAPSHOTS:
            return bool(_list_folder(os.path.join(state_dir(state_home, here), _PACKS)))
        case WorkspaceData.SKILLS | WorkspaceData.MEMORY:
            own = os.path.join(here, SKILLS if data is WorkspaceData.SKILLS else AGENTS)
            return os.path.isdir(own) and not os.path.islink(own)
        case WorkspaceData.THREADS:
            return os.path.exists(os.path.join(state_dir(state_home, here), THREADS_FILE))
        case WorkspaceData.SHARED:
            return False


def _is_workspace(folder: str, state_home: str) -> bool:
    if find_config(folder) is not None or os.path.isdir(state_dir(state_home, folder)):
        return True
    if find_membership(folder, state_home) is not None:
        return True
    agents = os.path.join(folder, AGENTS)
    return any(os.path.isdir(os.path.join(agents, name, MEMORY)) for name in _list_folder(agents))


def _list_folder(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _way_to_workspace(here: str, found: str, parents: list[str], state_home: str) -> str:
    """Returns the options to pass. A configuration found there is not used: the user trusts it by going there."""
    if (agent_hint := _agent_folder_hint(found, state_home)) is not None:
        return agent_hint[1]
    parts = (relative_to(here, found) or "").split("/")
    agent = f" --agent {shlex.quote(parts[1])}" if parts[0] == AGENTS and len(parts) > 1 else ""
    configured = next((folder for folder in parents if find_config(folder) is not None), None)
    if configured is not None and (agent or configured == found):
        return f"For that one: run it in {shlex.quote(configured)}{f', with{agent}' if agent else ''}."
    if agent:
        return f"For that one: pass its configuration with --config FILE{agent}."
    return f"For that one: --workspace {shlex.quote(found)}."
