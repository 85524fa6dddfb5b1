"""`toolyard skill remove`, `restore`, `import` and `export`. Former contents stay available as versions."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from toolyard.cli.common.options import complete_commands
from toolyard.cli.skill.context import SkillsContext, WorkspaceOptions, command, open_skills
from toolyard.core.agent_folder_names import COMMUNITY
from toolyard.core.errors import ToolyardError, ValidationError
from toolyard.core.text import printable
from toolyard.skills import SkillChecks, check_skill, export_skill, import_skill, remove, restore, versions
from toolyard.skills.archive import ARCHIVE_SUFFIXES, find_skill_sources, read_source
from toolyard.skills.import_check import ImportResolver
from toolyard.skills.skill_md import PAGE
from toolyard.skills.store import is_unchanged

FAILED = 1


@command("remove", "toolyard skill remove community/create_website")
@click.argument("name")
def remove_skill(where: WorkspaceOptions, *, name: str, wants_json: bool) -> None:
    """Remove a skill. Its versions are kept, and `restore` restores them."""
    with open_skills(where) as skills:
        owner, last = skills.unambiguous_skill(name)
        remove(skills.root, owner, last, by="")
        number = _newest_version(skills, owner, last)
        skills.record_action(f"Removed {owner}/{last}.")
    if wants_json:
        click.echo(json.dumps({"skill": f"{owner}/{last}", "version": number}))
    else:
        back = complete_commands(f"`toolyard skill restore {owner}/{last} {number}`")
        click.echo(f"Removed {printable(f'{owner}/{last}')}. It is stored as version {number}: {back}")


@command("restore", "toolyard skill restore agent_a/create_website 2")
@click.argument("name")
@click.argument("version", type=click.IntRange(min=1))
def restore_skill(where: WorkspaceOptions, *, name: str, version: int, wants_json: bool) -> None:
    """Restore a former version as a new one. `show` lists the versions."""
    with open_skills(where) as skills:
        owner, last = skills.possibly_removed_skill(name)
        path = restore(skills.root, owner, last, version, by="")
        skills.record_action(f"Restored version {version} of {owner}/{last}.")
    click.echo(json.dumps({"path": path}) if wants_json else f"Restored version {version}: {printable(path)}")


@command("import", "toolyard skill import ~/.claude/skills --agent agent_a")
@click.argument("source")
@click.option("--name", metavar="NAME", default="", help="Store it under this name.")
def import_skills(where: WorkspaceOptions, *, source: str, name: str, wants_json: bool) -> None:
    """Import skills from a folder, an archive (.zip, .skill), or a folder of skills such as ~/.claude/skills.

    With --agent they belong to the agent, else to the community. An existing skill of the same name stays as a
    version; an unchanged one creates no new version.
    """
    sources = _sources(os.path.expanduser(source))
    if name and len(sources) > 1:
        raise click.UsageError(f"{source} holds {len(sources)} skills: --name needs a single one.")
    owner = where.agent or COMMUNITY
    with open_skills(where, adds=True) as skills:
        done = [_import_one(skills, owner, each, name) for each in sources]
        new = [each for each in done if "path" in each and not each["unchanged"]]
        skills.record_action(f"Imported {len(new)} skills from {source}.")
    if wants_json:
        click.echo(json.dumps(done, indent=2))
    for each in done if not wants_json else ():
        click.echo(printable(_describe_import(each)))
        for remark in each.get("remarks", ()):
            click.echo(f"  · {printable(remark)}")
    if not all("path" in each for each in done):
        raise SystemExit(FAILED)


@command("export", "toolyard skill export create_website website.zip")
@click.argument("name")
@click.argument("target")
def export(where: WorkspaceOptions, *, name: str, target: str, wants_json: bool) -> None:
    """Write a skill to a new archive (.zip, .skill), or as a new folder in the folder TARGET."""
    with open_skills(where) as skills:
        owner, last = skills.writable_skill(name, titles=True)
        if not target.endswith(ARCHIVE_SUFFIXES):
            os.makedirs(target, exist_ok=True)
        path = export_skill(skills.root, owner, last, target)
    click.echo(json.dumps({"path": path}) if wants_json else f"Wrote {printable(path)}")


def _newest_version(skills: SkillsContext, owner: str, name: str) -> int:
    """Returns the version number of the removed content."""
    return max((version.number for version in versions(skills.root, owner, name) if version.hash), default=0)


def _sources(source: str) -> list[str]:
    if os.path.isfile(source) or os.path.isfile(os.path.join(source, PAGE)):
        return [source]
    if not os.path.isdir(source):
        raise ValidationError.of(
            "source", f"{source} is neither a folder nor an archive", hint="Name an existing one."
        )
    found = find_skill_sources(source)
    if not found:
        raise ValidationError.of("source", f"{source} contains no skill", hint=f"A skill is a folder with a {PAGE}.")
    return found


def _describe_import(done: dict[str, Any]) -> str:
    if "path" not in done:
        return f"✗ {done['source']}: {done['fault']}"
    return f"{done['source']} -> {done['path']}{', unchanged' if done['unchanged'] else ''}"


def _import_one(skills: SkillsContext, owner: str, source: str, name: str) -> dict[str, Any]:
    """Imports one skill; returns the result as fields. Failed checks are reported but do not block the import."""
    try:
        chosen, tree = read_source(source, name)
        was_there = is_unchanged(skills.root, owner, chosen, tree)
        path = import_skill(skills.root, owner, source, by="", name=name)
    except ToolyardError as error:
        return {"source": source, "fault": str(error)}
    agent = skills.yard.agent if owner == COMMUNITY else owner
    report = check_skill(
        SkillChecks(ImportResolver(skills.root, agent, attached=skills.library.attached)), chosen, tree, owner
    )
    return {"source": source, "path": path, "unchanged": was_there, "remarks": [*report.faults, *report.remarks]}
