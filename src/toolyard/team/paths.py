"""Where a run and its agents have their folders.

A run always has the layout of `workspace/layout.py`: a root that its agents share, and a folder for each of them
unless the configuration gives it another (`cwd`). The folder of a run lies in the state of the root, `runs/<run>/`.
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
    """The configuration with a root, and with an agent where it names none."""
    update: dict[str, object] = {}
    if "workspace" not in config.toolyard.model_fields_set:
        update["toolyard"] = config.toolyard.model_copy(update={"workspace": config.toolyard.workspace})
    if not config.agents:
        raise ConfigError(
            "there is no agent in it.",
            where=config.source or "",
            hint="Add one: `agent: {backend: {type: gemini, model: gemini-2.5-flash, cwd: work}}`.",
        )
    return config.model_copy(update=update) if update else config


def without_fresh_start(config: Config) -> Config:
    """For an agent that is at work already: its folder is not emptied again."""
    agents = tuple(
        agent.model_copy(update={"backend": agent.backend.model_copy(update={"fresh": False})})
        for agent in config.agents
    )
    return config.model_copy(update={"agents": agents})


def root_of(config: Config) -> str:
    return os.path.realpath(os.path.join(config.base_folder(os.getcwd()), config.toolyard.workspace))


def workspace_of(config: Config, agent: Agent) -> str:
    base = config.base_folder(os.getcwd())
    home = Settings.from_environment().home
    return workspace_path(agent.id, agent.backend.cwd, base=base, root=root_of(config), home=home)


def make_folders(config: Config) -> None:
    """The folders that the configuration speaks of. Raises ConfigError."""
    for folder in (root_of(config), *(workspace_of(config, agent) for agent in config.agents)):
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the folder {folder} cannot be made: {error.strerror}.", where=config.source or ""
            ) from error


def runs_folder(config: Config, state_home: str) -> str:
    """The folder with the runs of a root."""
    return ensure_state_dir(os.path.join(ensure_state_dir(state_dir(state_home, root_of(config))), RUNS))


def find_run(run: str, state_home: str) -> str:
    """The folder of a run, by its name or the beginning of it, of whichever root. Raises ToolError."""
    found = [folder for folder in all_runs(state_home) if os.path.basename(folder).startswith(run)]
    if not _RUN_ID.fullmatch(run) or not found:
        raise ToolError(
            f"There is no run {run[:40]!r} in {state_home}.",
            hint="`toolyard run --list` tells which there are; --state DIR names another state folder.",
        )
    if len(found) > 1:
        names = ", ".join(sorted(map(os.path.basename, found))[:5])
        raise ToolError(f"{run!r} begins the names of several runs: {names}.", hint="Write more of it.")
    return found[0]


def all_runs(state_home: str) -> Iterator[str]:
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
