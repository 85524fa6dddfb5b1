"""The folders of a run and of its agents.

A run always has the layout of `workspace/layout.py`: a root that the agents share, and a folder for each agent unless
its configuration sets `cwd`. The folder of a run is `runs/<run>/` in the state of the root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from toolyard.config.models import Agent, Config
from toolyard.config.settings import Settings
from toolyard.core.agent_folder_names import workspace_path
from toolyard.core.errors import ConfigError, ToolError
from toolyard.storage.state_folder import ensure_state_dir, state_dir
from toolyard.team.store import STORE_FILE

RUNS = "runs"
_RUN_ID = re.compile(r"[0-9a-f]{4,32}")
_ONE = "agent"


def with_layout(config: Config) -> Config:
    """Returns the configuration with a root. Raises ConfigError if it has no agent."""
    update: dict[str, object] = {}
    if "workspace" not in config.toolyard.model_fields_set:
        update["toolyard"] = config.toolyard.model_copy(update={"workspace": config.toolyard.workspace})
    if not config.agents:
        raise ConfigError(
            "no agent is configured.",
            where=config.source or "",
            hint="Add one: `agent: {backend: {type: gemini, model: gemini-2.5-flash, cwd: work}}`.",
        )
    return config.model_copy(update=update) if update else config


def without_fresh_start(config: Config) -> Config:
    """Returns the configuration without `fresh`: a running agent's folder must not be emptied again."""
    agents = tuple(
        agent.model_copy(update={"backend": agent.backend.model_copy(update={"fresh": False})})
        for agent in config.agents
    )
    return config.model_copy(update={"agents": agents})


def root_of(config: Config) -> str:
    """Returns the real path of the root that the agents share."""
    return os.path.realpath(os.path.join(config.base_folder(os.getcwd()), config.toolyard.workspace))


def workspace_of(config: Config, agent: Agent) -> str:
    """Returns the folder of an agent."""
    base = config.base_folder(os.getcwd())
    home = Settings.from_environment().home
    return workspace_path(agent.id, agent.backend.cwd, base=base, root=root_of(config), home=home)


def make_folders(config: Config) -> None:
    """Creates the folders of the configuration. Raises ConfigError."""
    for folder in (root_of(config), *(workspace_of(config, agent) for agent in config.agents)):
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the folder {folder} cannot be created: {error.strerror}.", where=config.source or ""
            ) from error


def runs_folder(config: Config, state_home: str) -> str:
    """Returns the folder with the runs of a root."""
    return ensure_state_dir(os.path.join(ensure_state_dir(state_dir(state_home, root_of(config))), RUNS))


def find_run(run: str, state_home: str) -> str:
    """Returns the folder of a run of any root, by its id or a prefix of it. Raises ToolError."""
    found = [folder for folder in all_runs(state_home) if os.path.basename(folder).startswith(run)]
    if not _RUN_ID.fullmatch(run) or not found:
        raise ToolError(
            f"There is no run {run[:40]!r} in {state_home}.",
            hint="`toolyard run --list` lists them; --state DIR names another state folder.",
        )
    if len(found) > 1:
        names = ", ".join(sorted(map(os.path.basename, found))[:5])
        raise ToolError(f"{run!r} is ambiguous, it matches the runs {names}.", hint="Use a longer prefix.")
    return found[0]


def all_runs(state_home: str) -> Iterator[str]:
    """Yields the folders of all runs of all roots."""
    for state in _subfolders(state_home):
        for folder in _subfolders(os.path.join(state, RUNS)):
            if os.path.lexists(os.path.join(folder, STORE_FILE)):
                yield folder


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
