"""Resolves the configuration in force and the workspace folder from a command's options.

A configuration file that is found in a folder may have been written by anyone with access to it, for example in a
cloned repository. It may tighten the policy; to widen it, or to use variables, the user must trust its content
(`toolyard trust`) or name the file with `--config`. Commands that grant no rights use only its agents and folders.
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
    """The configuration in force and the workspace's folder."""

    config: Config
    workspace: str
    untrusted: str = ""
    """Why only the agents and folders of the configuration apply; empty if all of it does."""

    def warn_untrusted(self) -> None:
        """Prints a warning if the configuration is not trusted."""
        if self.untrusted:
            click.echo(f"! {self.config.source}: {self.untrusted} Only its agents and their folders apply.", err=True)


def resolve_workspace(
    workspace: str | None,
    config_file: str | None,
    agent: str | None = None,
    *,
    acts_as_agent: bool = False,
    needs_rights: bool = True,
) -> ResolvedWorkspace:
    """Returns the configuration in force and the workspace's folder.

    The workspace is, in this order: `--workspace`; the agent's `cwd`; the agent's folder in `toolyard.workspace` or,
    without agents, that folder itself, relative to the configuration file; else the current folder. With
    `acts_as_agent` one of several agents has to be named. Without `needs_rights`, only the agents and folders of an
    untrusted file that widens the policy apply.
    """
    here = os.getcwd()
    found = _find_config_file(workspace, here) if config_file is None else None
    config = _trusted_config(found) if found is not None else None
    if config is not None:
        found = None  # trusted: treated like --config
    else:
        config = load_config(config_file or found, is_found=found is not None)
    config = _with_run_root(config, here)
    _check_hosts(config)
    check_memory_rights(config)
    _check_agent(config, agent, acts_as_agent=acts_as_agent, chosen_by_file=workspace is None)
    resolved = ResolvedWorkspace(config, _workspace_folder(config, workspace, agent, here))
    if found is not None:
        resolved = _without_widening(resolved, found, chosen_by_file=workspace is None, needs_rights=needs_rights)
    _make_folders(resolved, chosen_by_file=workspace is None)
    return resolved


def _with_run_root(config: Config, here: str) -> Config:
    """Adds the root that `toolyard run` uses for a file that names none, since a run stores its data there.

    A file is meant for runs if it has an `execution_mode`, or if a run has left its folders.
    """
    section = config.toolyard
    if config.source is None or not config.agents or "workspace" in section.model_fields_set:
        return config
    is_for_runs = "execution_mode" in section.model_fields_set
    if not is_for_runs and not os.path.isdir(os.path.join(config.base_folder(here), section.workspace, AGENTS)):
        return config
    return config.model_copy(update={"toolyard": section.model_copy(update={"workspace": section.workspace})})


def _make_folders(resolved: ResolvedWorkspace, *, chosen_by_file: bool) -> None:
    """Creates the folders that the configuration names. An untrusted file can name only folders inside its own."""
    if resolved.config.source is None:
        return
    wanted = [resolved.workspace] if chosen_by_file else []
    if "workspace" in resolved.config.toolyard.model_fields_set:
        wanted.append(os.path.join(resolved.config.base_folder(os.getcwd()), resolved.config.toolyard.workspace))
    for folder in wanted:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the folder {folder} cannot be created: {error.strerror}.", where=resolved.config.source or ""
            ) from error


def _check_agent(config: Config, agent: str | None, *, acts_as_agent: bool, chosen_by_file: bool) -> None:
    """Raises ConfigError if there are several agents, which differ in rights and folders, and none was named."""
    if agent is not None or len(config.agents) < _SEVERAL:
        return
    ids = ", ".join(each.id for each in config.agents)
    if acts_as_agent:
        raise ConfigError(
            f"several agents are configured ({ids}), each with its own rights.",
            where=config.source or "",
            hint=f"Pass one of them: --agent {config.agents[0].id}",
        )
    has_root = "workspace" in config.toolyard.model_fields_set
    if chosen_by_file and not has_root and any(each.backend.cwd for each in config.agents):
        raise ConfigError(
            f"its agents ({ids}) have their own folders, and there is no shared `toolyard.workspace`.",
            where=config.source or "",
            hint=f"Pass --agent {config.agents[0].id} or --workspace DIR",
        )


def _check_hosts(config: Config) -> None:
    """Checks `allowed_hosts` now; the sandbox would report an error only with the first command."""
    hosts = config.toolyard.code_execution.allowed_hosts
    if not hosts:
        return
    from toolyard.sandbox.proxy.allow_list import AllowListEntry  # most configurations have none

    for number, host in enumerate(hosts):
        with with_error_location(config, "toolyard", "code_execution", "allowed_hosts", number):
            AllowListEntry.parse(host)


def _find_config_file(workspace: str | None, here: str) -> str | None:
    """Returns the file in the named workspace, else the one in the current folder."""
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
    """Returns the configuration at `path` if the user trusts its current content."""
    settings = Settings.from_environment()
    return TrustStore(settings.state_home).trusted_config(path, settings.home)


def _without_widening(
    resolved: ResolvedWorkspace, path: str, *, chosen_by_file: bool, needs_rights: bool
) -> ResolvedWorkspace:
    """Raises ConfigError for an untrusted configuration whose widened rights are needed."""
    outside = paths_outside(resolved.config, path, resolved.workspace if chosen_by_file else None)
    reasons = [*widened_rights(resolved.config), *outside]
    if not reasons:
        return resolved
    trust = TrustStore(Settings.from_environment().state_home)
    why = ": it, or a file it includes, changed since you trusted it" if trust.record(path) is not None else ""
    reason_text = f"it widens what agents may do ({', '.join(reasons)}) and is not trusted{why}."
    if needs_rights or outside:
        raise ConfigError(reason_text, where=path, hint=trust_hint(path))
    return ResolvedWorkspace(_without_rights(resolved.config), resolved.workspace, untrusted=reason_text)


def _without_rights(config: Config) -> Config:
    """Returns only the agents and their folders, which grant no rights."""
    agents = tuple(Agent(id=each.id, backend=Backend(cwd=each.backend.cwd)) for each in config.agents)
    section = config.toolyard
    places = {
        name: getattr(section, name) for name in ("workspace", "execution_mode") if name in section.model_fields_set
    }
    orchestrator = config.orchestrator.model_copy(update={"context_paths": ()})
    narrow = Config(agents=agents, toolyard=ToolyardSection(**places), orchestrator=orchestrator)
    return narrow.model_copy(update={"source": config.source})
