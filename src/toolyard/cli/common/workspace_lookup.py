"""Where the user stands: perhaps in a folder below the workspace whose snapshots, skills or memory are meant.

A workspace is never guessed: what is restored, or remembered, in the wrong folder surprises. A command that looks is
refused with the way to what is meant; one that adds goes on, and says that it begins something apart.
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
"""Empty where snapshots were looked for, and none was ever taken."""


class WorkspaceData(enum.Enum):
    """What a command is about."""

    SNAPSHOTS = "snapshots"
    SKILLS = "skills"
    MEMORY = "memory"
    SHARED = "other agents"
    THREADS = "threads"


@dataclass(frozen=True, slots=True)
class WorkspaceOptions:
    """The options that say which workspace is meant."""

    config_file: str | None
    workspace: str | None
    agent: str | None
    state: str | None


def resolve_data_workspace(
    data: WorkspaceData, where: WorkspaceOptions, *, acts_as_agent: bool = False, adds: bool = False
) -> ResolvedWorkspace:
    """As `resolve_workspace`, minding a workspace around the current folder where that has nothing `data` of its own."""
    if where.workspace is None and where.config_file is None:
        settings = Settings.from_environment()
        _check_enclosing_workspace(
            data, os.path.realpath(os.getcwd()), where.state or settings.state_home, settings.home, adds=adds
        )
    place = resolve_workspace(
        where.workspace, where.config_file, where.agent, acts_as_agent=acts_as_agent, needs_rights=False
    )
    place.warn_untrusted()
    return place


def require_agent(
    config: Config, home: AgentPaths, agent: str | None, more: Iterable[str] = (), *, adds: bool = False
) -> None:
    """Raises ConfigError for an agent that the user names and of whom nothing is kept: a slip, or a missing --config.

    Where the configuration has agents, it was asked already. `more` are agents that left no folder. Who `adds` is
    only told that the agent is new, where others are not.
    """
    if agent is None or agent == UNNAMED_AGENT or config.agents:
        return
    folders = {name for part in (AGENTS, SKILLS) for name in _list_folder(os.path.join(home.root, part))}
    known = {name for name in folders - {COMMUNITY} if not name.startswith(".")} | {name for name in more if name}
    if agent not in known and folder_name(agent) not in known:
        named = did_you_mean(agent, known - {UNNAMED_AGENT}) if known - {UNNAMED_AGENT} else ""
        if adds:
            if named:
                click.echo(printable(f"Agent {agent} is new here. {named}"), err=True)
            return
        raise ConfigError(
            f'nothing is kept of an agent "{agent}" in {home.root}.',
            where=config.source or "",
            hint=named or "Where agents are configured, name that file with --config.",
        )


def _check_enclosing_workspace(
    data: WorkspaceData, here: str, state_home: str, user_home: str, *, adds: bool
) -> None:
    if find_config(here) is not None or _has_own_data(data, here, state_home):
        return
    around = list(_parent_folders(here, os.path.realpath(user_home)))
    told = _agent_folder_hint(here, state_home) or _enclosing_workspace_hint(here, around, state_home)
    if told is None:
        return
    said, way = told
    if not adds:
        alone = "" if data is WorkspaceData.SHARED else " For this folder alone: --workspace ."
        raise ConfigError(f"{said} and has no {data.value} of its own.", hint=f"{way}{alone}")
    click.echo(printable(f"{said}. What is kept here now is apart from it. {way}"), err=True)


def _agent_folder_hint(here: str, state_home: str) -> tuple[str, str] | None:
    """Of a folder outside the root that an agent works in: where it belongs, and the way there."""
    found = find_membership(here, state_home)
    if found is None or is_beneath(here, found.root):
        return None
    file = shlex.quote(found.config) if os.path.isfile(found.config) else "FILE"
    said = f"{here} is where {found.agent} of {found.root} works"
    return said, f"For that one: name its configuration with --config {file} --agent {shlex.quote(found.agent)}."


def _enclosing_workspace_hint(here: str, around: list[str], state_home: str) -> tuple[str, str] | None:
    """Of a folder in a workspace: which that is, and the way there."""
    found = next((folder for folder in around if _is_workspace(folder, state_home)), None)
    if found is None:
        return None
    return f"{here} lies in the workspace {found}", _way_to_workspace(here, found, around, state_home)


def _parent_folders(here: str, user_home: str) -> Iterator[str]:
    """The folders around `here`, the nearest first: below the user's home and on the same file system."""
    with contextlib.suppress(OSError):
        device = os.stat(here).st_dev
        folder = os.path.dirname(here)
        while folder not in {user_home, os.path.dirname(folder)} and os.stat(folder).st_dev == device:
            yield folder
            folder = os.path.dirname(folder)


def _has_own_data(data: WorkspaceData, here: str, state_home: str) -> bool:
    """Links are those that an agent's folder has into its root."""
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


def _way_to_workspace(here: str, found: str, around: list[str], state_home: str) -> str:
    """What to do for the workspace that was found. A file that lies about is the user's to trust, by going there."""
    if (told := _agent_folder_hint(found, state_home)) is not None:
        return told[1]
    parts = (relative_to(here, found) or "").split("/")
    agent = f" --agent {shlex.quote(parts[1])}" if parts[0] == AGENTS and len(parts) > 1 else ""
    configured = next((folder for folder in around if find_config(folder) is not None), None)
    if configured is not None and (agent or configured == found):
        return f"For that one: run it in {shlex.quote(configured)}{f', with{agent}' if agent else ''}."
    if agent:
        return f"For that one: name its configuration with --config FILE{agent}."
    return f"For that one: --workspace {shlex.quote(found)}."
