"""The folders of one agent: its workspace, and the root whose tool files, skills and memory it uses.

Two cases. *A single folder*: the root is the workspace itself (or, without agents, a folder beside it with the tool
files and skills). *A layout*: the configuration has `toolyard.workspace` and agents; the root contains what they
share and a folder for each of them, as shown in `workspace/layout.py`.

AgentPaths contains only names: creating one opens and creates nothing. Host code reaches these folders by handles of
`root`, never through the links that an agent sees beside its files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from toolyard.config.agents import select_agent
from toolyard.config.memory_access import memory_rules
from toolyard.core.agent_folder_names import DEFAULT_AGENT, WORKSPACE, agent_folder
from toolyard.core.errors import ConfigError
from toolyard.core.paths import is_beneath
from toolyard.storage.state_folder import state_dir
from toolyard.workspace.layout import MEMORY, SHARED, SHARING, SKILLS, TASKS, skills_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from toolyard.config.models import Config
    from toolyard.config.models import Memory as MemoryRules
    from toolyard.config.settings import Settings

UNNAMED_AGENT = DEFAULT_AGENT
"""The acting agent if none is configured or named."""
_SNAPSHOTS = "snapshots"
CREATE_FOLDER = "Create it, or name another one."
"""Hint for a missing folder."""


@dataclass(frozen=True)
class AgentPaths:
    """The folders of one agent."""

    root: str
    """Real path of the folder with `servers`, `tools`, `skills` and `agents`."""
    workspace: str
    """Real path of the folder that the agent works in."""
    agent: str
    state: str
    """The state folder of `root`."""
    log_folder: str
    """The state folder with the audit log: the workspace's own, or the root's, if agents share it."""
    agents: tuple[str, ...] = ()
    """Every agent of a layout, in the order of the configuration; empty without a layout."""
    memory_rules: Mapping[str, MemoryRules] = field(default_factory=dict[str, "MemoryRules"])
    """Which agents may access whose memory, by agent."""
    attached_skills: tuple[str, ...] = ()
    """Folders of skills elsewhere, read-only. Real paths, in search order."""
    shared_override: str = ""
    snapshots_override: str = ""

    @property
    def has_layout(self) -> bool:
        return bool(self.agents)

    @property
    def is_member(self) -> bool:
        """Returns whether this is one of the layout's agents; false for a command for all of them, such as `sync`."""
        return self.agent in self.agents

    @property
    def has_separate_root(self) -> bool:
        """Returns whether the agent works outside the root."""
        return self.root != self.workspace

    @property
    def is_own_folder(self) -> bool:
        """Returns whether the agent works in its folder of the layout, which has no files of the user's own."""
        return self.is_member and self.workspace == os.path.join(self.root, agent_folder(self.agent, WORKSPACE))

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(agent for agent in self.agents if agent != self.agent)

    @cached_property
    def skills(self) -> str:
        return os.path.join(self.root, SKILLS)

    @cached_property
    def own_skills(self) -> str:
        return os.path.join(self.root, skills_folder(self.agent))

    @cached_property
    def memory(self) -> str:
        return self.memory_of(self.agent)

    def memory_of(self, agent: str) -> str:
        return os.path.join(self.root, agent_folder(agent, MEMORY))

    @cached_property
    def tasks(self) -> str:
        return os.path.join(self.root, agent_folder(self.agent, TASKS))

    @cached_property
    def shared_folder(self) -> str:
        """Returns where agents publish their work; empty without a layout."""
        return (self.shared_override or os.path.join(self.root, SHARED)) if self.has_layout else ""

    @property
    def authors_record(self) -> str:
        """Returns the folder of the record of authors; empty if no other agent works in the workspace."""
        return "" if self.is_own_folder else authors_folder(self.state, self.agent)

    @cached_property
    def snapshots_folder(self) -> str:
        """Returns the folder of the root's snapshot store."""
        return self.snapshots_override or os.path.join(self.state, _SNAPSHOTS)


def authors_folder(state: str, agent: str) -> str:
    """Returns where changes by `agent` are recorded; empty for an unnamed agent, which is indistinguishable."""
    return "" if agent == UNNAMED_AGENT else os.path.join(state, SHARING)


def has_layout(config: Config) -> bool:
    """Returns whether the configuration has a root that several agents share."""
    return config.source is not None and "workspace" in config.toolyard.model_fields_set and bool(config.agents)


def resolve_agent_paths(
    config: Config, workspace: str, agent: str | None, settings: Settings, state_home: str = ""
) -> AgentPaths:
    """Returns the paths of an agent that works in `workspace` (a real path). Raises ConfigError."""
    chosen = select_agent(config, agent)
    base = config.base_folder(workspace)

    def absolute(path: str) -> str:
        at_home = path == "~" or path.startswith("~/")
        return os.path.normpath(os.path.join(base, settings.home + path[1:] if at_home else path))

    def override(path: str | None) -> str:
        return os.path.realpath(absolute(path)) if path else ""

    root = _resolve_root(config, workspace)
    home = AgentPaths(
        root=root,
        workspace=workspace,
        agent=agent or (chosen.id if chosen is not None else UNNAMED_AGENT),
        state=state_dir(state_home or settings.state_home, root),
        log_folder=state_dir(state_home or settings.state_home, root if has_layout(config) else workspace),
        agents=tuple(member.id for member in config.agents) if has_layout(config) else (),
        memory_rules=memory_rules(config),
        attached_skills=tuple(
            dict.fromkeys(_existing_skill_folders(map(absolute, config.toolyard.skill_folders), workspace))
        ),
        shared_override=override(config.orchestrator.agent_temporary_workspace),
        snapshots_override=override(config.orchestrator.snapshot_storage),
    )
    if home.snapshots_override and is_beneath(home.snapshots_override, workspace):
        raise ConfigError(
            f"the snapshots in {home.snapshots_folder} would lie inside the workspace: agents could change them.",
            where=config.source or "",
            hint="Choose another `orchestrator.snapshot_storage`, or leave it out.",
        )
    return home


def _resolve_root(config: Config, workspace: str) -> str:
    if config.source is None or "workspace" not in config.toolyard.model_fields_set:
        return workspace
    root = os.path.realpath(os.path.join(config.base_folder(workspace), config.toolyard.workspace))
    if (root != workspace or has_layout(config)) and not os.path.isdir(root):
        raise ConfigError(f"the workspace root {root} is not a folder.", where=config.source, hint=CREATE_FOLDER)
    return root


def _existing_skill_folders(folders: Iterable[str], workspace: str) -> Iterator[str]:
    """Yields the folders that exist, except links from the workspace to the outside: agents could create those."""
    for folder in folders:
        real = os.path.realpath(folder)
        if os.path.isdir(real) and (is_beneath(real, workspace) or not is_beneath(folder, workspace)):
            yield real


def check_outside_workspace(state: str, workspace: str) -> str:
    """Returns the state folder. Raises ConfigError if it lies in the workspace, where agents could change it."""
    if is_beneath(os.path.realpath(state), workspace):
        raise ConfigError(
            f"the state folder {state} lies inside the workspace, where agents could change it.",
            hint="Choose another one with --state DIR.",
        )
    return state
