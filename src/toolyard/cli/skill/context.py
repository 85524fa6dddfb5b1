"""The options that the commands of `toolyard skill` share, and the skills they work on."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass

import click

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.resolve_workspace import ResolvedWorkspace, resolve_workspace
from toolyard.cli.common.workspace_group import workspace_command
from toolyard.cli.common.workspace_lookup import (
    WorkspaceData,
    WorkspaceOptions,
    require_agent,
    resolve_data_workspace,
)
from toolyard.config.suggestions import did_you_mean
from toolyard.core.agent_folder_names import COMMUNITY
from toolyard.core.errors import ValidationError
from toolyard.core.events import CallOutcome
from toolyard.files.roots import Root
from toolyard.skills import SkillEntry
from toolyard.skills.library import SkillLibrary

_WHO = "The agent whose skills come first.  [default: the first agent]"


_EXAMPLES = """\b
Examples:
  toolyard skill list
  toolyard skill show create_website
  toolyard skill validate create_website
  toolyard skill import ~/.claude/skills
  toolyard skill export create_website website.zip
"""


@click.group(epilog=_EXAMPLES)
def skill() -> None:
    """List, check, promote, import and export the skills of agents."""


command = workspace_command(
    skill, who=_WHO, state="The folder for audit log and use counts, outside every workspace."
)
"""Adds a command to the group."""


@dataclass(frozen=True, slots=True)
class SkillsContext:
    """The skills of an open workspace."""

    yard: Yard

    @property
    def library(self) -> SkillLibrary:
        """The skill library."""
        return self.yard.codemode.skill_library

    @property
    def root(self) -> Root:
        """The folder of the skills."""
        return self.library.root

    def find(self, name: str, *, titles: bool = True, history: bool = True) -> SkillEntry:
        """Returns the nearest skill called `name` or `owner/name`. Raises ValidationError with suggestions."""
        found = self.library.find(name, titles=titles, history=history)
        if found is not None:
            return found
        entries = self.library.entries()
        titled = [self.library.name_of(entry) for entry in entries if entry.title == name]
        known = [form for entry in entries for form in (entry.name, self.library.name_of(entry))]
        raise ValidationError.of(
            "name",
            f"there is no skill {name!r}" + (f"; it is the title of {', '.join(titled)}" if titled else ""),
            hint=("Use its folder name." if titled else did_you_mean(name, known))
            or "Run `toolyard skill list` to list the skills.",
        )

    def writable_skill(self, name: str, *, titles: bool = False) -> tuple[str, str]:
        """Returns owner and name of a stored skill that may be changed. Titles are not accepted by default."""
        entry = self.find(name, titles=titles, history=False)
        if entry.attached:
            raise ValidationError.of(
                "name",
                f"{entry.path} belongs to another program and is only read",
                hint=f"Copy it with `toolyard skill import {entry.path}`, then change the copy.",
            )
        return entry.owner, entry.name

    def unambiguous_skill(self, name: str) -> tuple[str, str]:
        """Like `writable_skill`, but raises ValidationError if several owners have a skill of that name."""
        entries = [each for each in self.library.entries() if each.name == name and not each.attached]
        several = [f"{each.owner}/{each.name}" for each in entries]
        if len(several) > 1:
            raise ValidationError.of(
                "name", f"several owners have a skill {name!r}: {', '.join(several)}", hint="Use OWNER/NAME."
            )
        return self.writable_skill(name)

    def agent_skill(self, name: str) -> tuple[str, str]:
        """Like `unambiguous_skill`, for agents' skills only: a community skill of that name is ignored."""
        entries = self.library.entries()
        owners = [
            each.owner for each in entries if each.name == name and not each.attached and each.owner != COMMUNITY
        ]
        return (owners[0], name) if len(owners) == 1 else self.unambiguous_skill(name)

    def possibly_removed_skill(self, name: str) -> tuple[str, str]:
        """Like `writable_skill`, but accepts a removed skill; without an owner it is the agent's."""
        owner, _, last = name.rpartition("/")
        if owner:
            return owner, last
        try:
            return self.writable_skill(name)
        except ValidationError:
            return self.yard.agent, last

    def record_action(self, description: str) -> None:
        """Records an action of the user in the audit log."""
        self.yard.record("skill", description, CallOutcome.OK)


@contextlib.contextmanager
def open_skills(
    where: WorkspaceOptions, name: str = "", *, runs: bool = False, adds: bool = False, looks: bool = True
) -> Generator[SkillsContext]:
    """Opens the skills of the chosen workspace. With `runs`, as the agent whose sandbox runs examples: the owner in
    `name`.

    A command that neither `looks` at stored skills nor `adds` any works in every folder.
    """
    if adds or looks:
        resolved = resolve_data_workspace(WorkspaceData.SKILLS, where, adds=adds)
    else:
        resolved = resolve_workspace(where.workspace, where.config_file, where.agent)
    agent = where.agent
    if runs and agent is None and len(resolved.config.agents) > 1:
        agent = _acting_agent(resolved, name)
        resolved = resolve_workspace(where.workspace, where.config_file, agent)
    options = YardOptions(
        workspace=resolved.workspace,
        config=resolved.config,
        agent=agent,
        toolset=Toolset.CODE if runs else Toolset.CLAUDE,
        state_home=where.state,
    )
    with Yard.open(options) as yard:
        if looks:
            require_agent(resolved.config, yard.home, agent, adds=adds)
        yield SkillsContext(yard)


def _acting_agent(resolved: ResolvedWorkspace, name: str) -> str:
    """Returns the owner of the skill, or the first agent for a community skill."""
    ids = [each.id for each in resolved.config.agents]
    owner = name.rpartition("/")[0]
    return owner if owner in ids and owner != COMMUNITY else ids[0]
