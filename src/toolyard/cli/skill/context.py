"""What the commands of `toolyard skill` share: their options, and the skills they mean."""

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

_WHO = "Whose skills come first.  [default: the first agent]"


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
    """See, check, curate, import and export the skills of agents."""


command = workspace_command(
    skill, who=_WHO, state="Where the audit log and the counts are kept, outside every workspace."
)
"""A command of the group."""


@dataclass(frozen=True, slots=True)
class SkillsContext:
    """The skills of an open workspace."""

    yard: Yard

    @property
    def library(self) -> SkillLibrary:
        return self.yard.codemode.skill_library

    @property
    def root(self) -> Root:
        return self.library.root

    def find(self, name: str, *, titles: bool = True, history: bool = True) -> SkillEntry:
        """The nearest skill called `name` or `owner/name`. Raises ValidationError with what might be meant."""
        found = self.library.find(name, titles=titles, history=history)
        if found is not None:
            return found
        entries = self.library.entries()
        titled = [self.library.name_of(entry) for entry in entries if entry.title == name]
        known = [form for entry in entries for form in (entry.name, self.library.name_of(entry))]
        raise ValidationError.of(
            "name",
            f"there is no skill {name!r}" + (f"; it is the title of {', '.join(titled)}" if titled else ""),
            hint=("Give its folder's name." if titled else did_you_mean(name, known))
            or "Run `toolyard skill list` to see which there are.",
        )

    def writable_skill(self, name: str, *, titles: bool = False) -> tuple[str, str]:
        """Owner and name of a skill that is there, and ours to change. What is changed is not named by a title."""
        entry = self.find(name, titles=titles, history=False)
        if entry.attached:
            raise ValidationError.of(
                "name",
                f"{entry.path} belongs to another program and is only read",
                hint=f"Copy it with `toolyard skill import {entry.path}`, then change the copy.",
            )
        return entry.owner, entry.name

    def unambiguous_skill(self, name: str) -> tuple[str, str]:
        """As `writable_skill`, where nothing is guessed: of several owners' one has to be named."""
        entries = [each for each in self.library.entries() if each.name == name and not each.attached]
        several = [f"{each.owner}/{each.name}" for each in entries]
        if len(several) > 1:
            raise ValidationError.of(
                "name", f"several have a skill {name!r}: {', '.join(several)}", hint="Say whose: OWNER/NAME."
            )
        return self.writable_skill(name)

    def agent_skill(self, name: str) -> tuple[str, str]:
        """As `unambiguous_skill`, of an agent's skills: everybody's of that name is not meant."""
        entries = self.library.entries()
        owners = [
            each.owner for each in entries if each.name == name and not each.attached and each.owner != COMMUNITY
        ]
        return (owners[0], name) if len(owners) == 1 else self.unambiguous_skill(name)

    def possibly_removed_skill(self, name: str) -> tuple[str, str]:
        """As `writable_skill`, of a skill that may have been removed; its owner is the agent's where none is named."""
        owner, _, last = name.rpartition("/")
        if owner:
            return owner, last
        try:
            return self.writable_skill(name)
        except ValidationError:
            return self.yard.agent, last

    def record_action(self, description: str) -> None:
        """What the user did to the skills, beside what agents did."""
        self.yard.record("skill", description, CallOutcome.OK)


@contextlib.contextmanager
def open_skills(
    where: WorkspaceOptions, name: str = "", *, runs: bool = False, adds: bool = False, looks: bool = True
) -> Generator[SkillsContext]:
    """The skills that are meant. With `runs` as one agent, in whose sandbox they are tried: the owner in `name`.

    Whoever neither `looks` for what is kept nor `adds` to it may stand in any folder.
    """
    if adds or looks:
        place = resolve_data_workspace(WorkspaceData.SKILLS, where, adds=adds)
    else:
        place = resolve_workspace(where.workspace, where.config_file, where.agent)
    agent = where.agent
    if runs and agent is None and len(place.config.agents) > 1:
        agent = _acting_agent(place, name)
        place = resolve_workspace(where.workspace, where.config_file, agent)
    options = YardOptions(
        workspace=place.workspace,
        config=place.config,
        agent=agent,
        toolset=Toolset.CODE if runs else Toolset.CLAUDE,
        state_home=where.state,
    )
    with Yard.open(options) as yard:
        if looks:
            require_agent(place.config, yard.home, agent, adds=adds)
        yield SkillsContext(yard)


def _acting_agent(place: ResolvedWorkspace, name: str) -> str:
    """Whoever the skill belongs to, else the first agent: what is everybody's runs as anybody."""
    ids = [each.id for each in place.config.agents]
    owner = name.rpartition("/")[0]
    return owner if owner in ids and owner != COMMUNITY else ids[0]
