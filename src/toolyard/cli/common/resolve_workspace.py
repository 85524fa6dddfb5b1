"""From a command's options to a workspace: which configuration counts, and which folder is meant.

A configuration file that is found in a folder may come from anybody who can write there (a cloned repository, say).
It may tighten the policy; to widen it, or to take variables, the user has to trust its content (`toolyard trust`) or
name the file with `--config`. Commands that give no rights to anything go on with its agents and folders alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from toolyard.cli.common.widening_check import paths_outside, widened_rights
from toolyard.config.agents import check_memory_rights, select_agent
from toolyard.config.error_location import with_error_location
from toolyard.config.expansion import trust_hint
from toolyard.config.loader import find_config, load_config
from toolyard.config.models import Agent, Backend, Config, ToolyardSection
from toolyard.config.settings import Settings
from toolyard.core.agent_folder_names import AGENTS, WORKSPACE, agent_folder
from toolyard.core.errors import ConfigError
from toolyard.storage.trust import TrustStore

_SEVERAL = 2


@dataclass(frozen=True, slots=True)
class ResolvedWorkspace:
    config: Config
    workspace: str
    untrusted: str = ""
    """Why only the agents and folders of the configuration count; empty where all of it does."""

    def warn_untrusted(self) -> None:
        if self.untrusted:
            click.echo(f"! {self.config.source}: {self.untrusted} Only its agents and their folders count.", err=True)


def resolve_workspace(
    workspace: str | None,
    config_file: str | None,
    agent: str | None = None,
    *,
    acts_as_agent: bool = False,
    needs_rights: bool = True,
) -> ResolvedWorkspace:
    """The configuration in force and the workspace's folder.

    `--workspace` goes first, then the agent's `cwd`, then its folder in `toolyard.workspace` or, without agents, that
    folder itself, all relative to the file that says so; without any of them it is the current folder. A command that
    `acts_as_agent` as an agent has to be told which one. Without `needs_rights`, of a file that was found, widens the
    policy and is not trusted, the agents and their folders count, and nothing else.
    """
    here = os.getcwd()
    found = _find_config_file(workspace, here) if config_file is None else None
    config = _trusted_config(found) if found is not None else None
    if config is not None:
        found = None  # as if it had been named
    else:
        config = load_config(config_file or found, is_found=found is not None)
    config = _with_run_root(config, here)
    _check_hosts(config)
    check_memory_rights(config)
    _check_agent(config, agent, acts_as_agent=acts_as_agent, chosen_by_file=workspace is None)
    place = ResolvedWorkspace(config, _workspace_folder(config, workspace, agent, here))
    if found is not None:
        place = _without_widening(place, found, chosen_by_file=workspace is None, needs_rights=needs_rights)
    _make_folders(place, chosen_by_file=workspace is None)
    return place


def _with_run_root(config: Config, here: str) -> Config:
    """With the root that `toolyard run` gives a file that names none: what a run keeps and needs is there.

    That a file is for runs is known by its `execution_mode`, or by what a run has left.
    """
    section = config.toolyard
    if config.source is None or not config.agents or "workspace" in section.model_fields_set:
        return config
    is_for_runs = "execution_mode" in section.model_fields_set
    if not is_for_runs and not os.path.isdir(os.path.join(config.base_folder(here), section.workspace, AGENTS)):
        return config
    return config.model_copy(update={"toolyard": section.model_copy(update={"workspace": section.workspace})})


def _make_folders(place: ResolvedWorkspace, *, chosen_by_file: bool) -> None:
    """The folders that a configuration speaks of. One that was only found speaks of none outside its own folder."""
    if place.config.source is None:
        return
    wanted = [place.workspace] if chosen_by_file else []
    if "workspace" in place.config.toolyard.model_fields_set:
        wanted.append(os.path.join(place.config.base_folder(os.getcwd()), place.config.toolyard.workspace))
    for folder in wanted:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the folder {folder} cannot be made: {error.strerror}.", where=place.config.source or ""
            ) from error


def _check_agent(config: Config, agent: str | None, *, acts_as_agent: bool, chosen_by_file: bool) -> None:
    """Of several agents none is guessed: each has rights of its own, and perhaps a folder."""
    if agent is not None or len(config.agents) < _SEVERAL:
        return
    ids = ", ".join(each.id for each in config.agents)
    if acts_as_agent:
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
    from toolyard.sandbox.proxy.allow_list import AllowListEntry  # most configurations name none

    for number, host in enumerate(hosts):
        with with_error_location(config, "toolyard", "code_execution", "allowed_hosts", number):
            AllowListEntry.parse(host)


def _find_config_file(workspace: str | None, here: str) -> str | None:
    """The file in the workspace that was named, else the one in the current folder."""
    return (find_config(workspace) if workspace is not None else None) or find_config(here)


def _workspace_folder(config: Config, workspace: str | None, agent: str | None, here: str) -> str:
    if workspace is not None:
        return os.path.abspath(workspace)
    base = config.base_folder(here)
    chosen = select_agent(config, agent)
    if chosen is not None and chosen.backend.cwd:
        return os.path.join(base, chosen.backend.cwd)
    if config.source and "workspace" in config.toolyard.model_fields_set:
        root = os.path.join(base, config.toolyard.workspace)
        return root if chosen is None else os.path.join(root, agent_folder(chosen.id, WORKSPACE))
    return here


def _trusted_config(path: str) -> Config | None:
    """The configuration at `path`, where the user trusts what it says now."""
    settings = Settings.from_environment()
    return TrustStore(settings.state_home).trusted_config(path, settings.home)


def _without_widening(
    place: ResolvedWorkspace, path: str, *, chosen_by_file: bool, needs_rights: bool
) -> ResolvedWorkspace:
    """Raises ConfigError for a configuration that is not trusted, where what it widens is needed."""
    outside = paths_outside(place.config, path, place.workspace if chosen_by_file else None)
    reasons = [*widened_rights(place.config), *outside]
    if not reasons:
        return place
    trust = TrustStore(Settings.from_environment().state_home)
    why = ": it, or a file that it includes, changed since you trusted it" if trust.record(path) is not None else ""
    said = f"it widens what agents may do ({', '.join(reasons)}) and is not trusted{why}."
    if needs_rights or outside:
        raise ConfigError(said, where=path, hint=trust_hint(path))
    return ResolvedWorkspace(_without_rights(place.config), place.workspace, untrusted=said)


def _without_rights(config: Config) -> Config:
    """Which agents there are and where their folders lie: nothing of it gives rights."""
    agents = tuple(Agent(id=each.id, backend=Backend(cwd=each.backend.cwd)) for each in config.agents)
    section = config.toolyard
    places = {
        name: getattr(section, name) for name in ("workspace", "execution_mode") if name in section.model_fields_set
    }
    orchestrator = config.orchestrator.model_copy(update={"context_paths": ()})
    narrow = Config(agents=agents, toolyard=ToolyardSection(**places), orchestrator=orchestrator)
    return narrow.model_copy(update={"source": config.source})
