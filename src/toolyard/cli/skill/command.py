"""`toolyard skill`: list, show, check, import and export the skills of agents.

Exit codes: 0 success, 1 failure or a skill that does not pass, 2 wrong usage. Texts of agents are escaped before they
are printed.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict
from typing import Any

import click

from toolyard.cli.common.options import complete_commands
from toolyard.cli.skill import edit, validate
from toolyard.cli.skill.context import SkillsContext, WorkspaceOptions, command, open_skills, skill
from toolyard.core.errors import ToolyardError
from toolyard.core.text import printable
from toolyard.files.roots import Root
from toolyard.skills import SkillEntry, versions
from toolyard.skills.skill import MODULE
from toolyard.skills.skill_files import SkillFile, SkillTree
from toolyard.skills.skill_md import PAGE
from toolyard.skills.store import load_skill_files
from toolyard.skills.usage_stats import UsageStats

__all__ = ["edit", "skill", "validate"]  # importing the modules adds their commands to the group


@command("list", "toolyard skill list --owner community")
@click.option("--owner", metavar="NAME", help="Only skills of this agent, or of the community.")
def list_skills(where: WorkspaceOptions, *, owner: str | None, wants_json: bool) -> None:
    """List the skills, in the order in which `skills.NAME` is resolved: own, community, other agents, attached."""
    with open_skills(where) as skills:
        uses = use_counts(skills)
        entries = [entry for entry in skills.library.entries(history=True) if owner in {None, entry.owner}]
    if wants_json:
        click.echo(json.dumps([fields_of(entry, uses) for entry in entries], indent=2))
    else:
        for entry in entries:
            _print(entry, uses)
    if not entries:
        ways = (
            "Agents save one with save_skill(name, code, description); `toolyard skill import PATH` imports others."
        )
        click.echo(complete_commands(f"No skills are stored here. {ways}"), err=True)


@command("show", "toolyard skill show create_website --version 2")
@click.argument("name")
@click.option("--version", "number", metavar="N", type=click.IntRange(min=1), help="A former version.")
def show_skill(where: WorkspaceOptions, *, name: str, number: int | None, wants_json: bool) -> None:
    """Show one skill: where it is, who saved it, its versions, its files, its page and its Python.

    NAME is a skill's name, or OWNER/NAME.
    """
    with open_skills(where) as skills:
        if number is not None:
            owner, last = skills.possibly_removed_skill(name)
            tree: SkillTree = load_skill_files(skills.root, owner, last, number)
            about: dict[str, Any] = {"owner": owner, "name": last, "version": number}
        else:
            entry = skills.find(name)
            owner, last = entry.owner, entry.name
            tree = _read_tree(skills, entry)
            about = fields_of(entry, use_counts(skills))
        known = () if os.path.isabs(owner) else versions(skills.root, owner, last)
    texts = {path: tree[path].data.decode("utf-8", "replace") for path in (PAGE, MODULE) if path in tree}
    if wants_json:
        version_fields = [asdict(version) for version in known]
        click.echo(json.dumps({**about, "versions": version_fields, "files": sorted(tree), **texts}, indent=2))
        return
    click.echo(click.style(printable(f"{owner}/{last}"), bold=True))
    for key in ("path", "module", "version", "saved_by", "saved_at", "promoted_from", "uses", "fault"):
        if about.get(key):
            click.echo(f"  {key.replace('_', ' '):<14}{printable(str(about[key]))}")
    click.echo(f"  {'files':<14}{printable(', '.join(sorted(tree)))}")
    for version in known:
        origin = f"from {version.promoted_from.partition('@')[0]}" if version.promoted_from else ""
        details = "  ".join(filter(None, (version.agent or "by hand", origin, version.note)))
        click.echo(printable(f"  version {version.number:<6}{version.time}  {details}"))
    for path, text in texts.items():
        click.echo(click.style(f"\n{path}", bold=True))
        for line in text.splitlines():
            click.echo(printable(line))


def fields_of(entry: SkillEntry, uses: dict[str, int]) -> dict[str, Any]:
    """Returns a skill as JSON fields."""
    version = entry.version
    return {
        "owner": entry.owner,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "path": entry.path,
        "module": entry.module,
        "attached": entry.attached,
        "version": version.number if version is not None else None,
        "saved_by": version.agent if version is not None else "",
        "saved_at": version.time if version is not None else "",
        "promoted_from": version.promoted_from if version is not None else "",
        "edited": entry.edited,
        "uses": uses.get(_usage_key(entry), 0),
        "fault": entry.fault,
        "remarks": list(entry.remarks),
    }


def use_counts(skills: SkillsContext) -> dict[str, int]:
    """Returns how often each skill was used, by any agent."""
    counts: dict[str, int] = {}
    with contextlib.suppress(ToolyardError):
        state = Root(skills.yard.home.state)
        try:
            for use in UsageStats(state).read():
                counts[use.skill] = counts.get(use.skill, 0) + use.count
        finally:
            state.close()
    return counts


def _usage_key(entry: SkillEntry) -> str:
    return entry.path if entry.attached else f"{entry.owner}/{entry.name}"


def _read_tree(skills: SkillsContext, entry: SkillEntry) -> dict[str, SkillFile]:
    from toolyard.skills.archive import read_skill_folder

    return read_skill_folder(skills.library.path_of(entry))


def _print(entry: SkillEntry, uses: dict[str, int]) -> None:
    count = uses.get(_usage_key(entry), 0)
    facts = [
        f"version {entry.version.number}" if entry.version is not None else "",
        f"saved by {entry.version.agent}" if entry.version is not None and entry.version.agent else "",
        "edited by hand" if entry.edited else "",
        f"used {count} times" if count > 1 else "used once" if count else "",
        "attached" if entry.attached else "",
    ]
    name = entry.path if entry.attached else f"{entry.owner}/{entry.name}"
    details = ", ".join(fact for fact in facts if fact)
    click.echo(f"{click.style(printable(name), bold=True)}{f'  {details}' if details else ''}")
    if entry.fault:
        click.echo(click.style(f"    {printable(entry.fault)}", fg="red"))
    else:
        click.echo(f"    {printable(entry.description)}")
        if entry.module:
            click.echo(f"    {printable(f'from {entry.module} import *')}")
