"""`toolyard skill validate` and `promote`: check a skill, and run its example in the sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass

import click

from toolyard.cli.skill.context import SkillsContext, WorkspaceOptions, command, open_skills
from toolyard.core.agent_folder_names import COMMUNITY
from toolyard.core.errors import ToolyardError, ValidationError
from toolyard.core.text import printable
from toolyard.skills import ValidationReport, check_skill, promote, versions
from toolyard.skills.archive import find_skill_sources, read_skill_folder, read_source
from toolyard.skills.skill_md import PAGE
from toolyard.skills.staging import staged_skill
from toolyard.skills.versions import Version

DOES_NOT_PASS = 1


@dataclass(frozen=True, slots=True)
class _CheckedSkill:
    name: str
    report: ValidationReport

    def fields(self) -> dict[str, object]:
        report = self.report
        return {
            "skill": self.name,
            "ok": report.ok,
            "faults": list(report.faults),
            "remarks": list(report.remarks),
            "example": report.example.where if report.example is not None else None,
            "ran": report.example_result.ok if report.example_result is not None else None,
        }


@command("validate", "toolyard skill validate ./downloads/pdf-forms.zip")
@click.argument("names", nargs=-1)
def validate(where: WorkspaceOptions, *, names: tuple[str, ...], wants_json: bool) -> None:
    """Check skills: the page, the Python, the imports, and the example, which runs in the sandbox.

    NAMES are skills, OWNER/NAME, or paths of folders, archives and folders of skills; without NAMES, all stored
    skills are checked. Exit code 1 if one does not pass.
    """
    is_kept = not names or not all(map(os.path.exists, names))
    with open_skills(where, names[0] if names else "", runs=True, looks=is_kept) as skills:
        every = [each for name in names for each in _expand_name(name)] if names else _all_skill_names(skills)
        checked = [_check_skill(skills, name) for name in every]
    if wants_json:
        click.echo(json.dumps([each.fields() for each in checked], indent=2))
    else:
        for each in checked:
            _print(each)
    if not checked:
        click.echo("No skills are stored here.", err=True)
    if not checked or not all(each.report.ok for each in checked):
        sys.exit(DOES_NOT_PASS)


@command("promote", "toolyard skill promote agent_a/create_website")
@click.argument("name")
@click.option("--replace", "replaces", is_flag=True, help="Replace a community skill that came from another agent.")
def promote_skill(where: WorkspaceOptions, *, name: str, replaces: bool, wants_json: bool) -> None:
    """Copy an agent's skill to the community skills, after checking it."""
    with open_skills(where, name, runs=True) as skills:
        owner, last = skills.agent_skill(name)
        if owner == COMMUNITY:
            raise ValidationError.of(
                "name", f"{name!r} is already a community skill", hint="Name a skill of an agent."
            )
        checks = skills.yard.skill_checks(agent=owner)
        before = _community_versions(skills, last)
        path = promote(skills.root, owner, last, replace=replaces, checks=checks, by="")
        is_new = _community_versions(skills, last) != before
        if is_new:
            skills.record_action(f"Promoted {owner}/{last}.")
    message = f"Promoted {owner}/{last}: {path}" if is_new else f"{owner}/{last} is already promoted: {path}"
    click.echo(json.dumps({"path": path}) if wants_json else message)


def _community_versions(skills: SkillsContext, name: str) -> tuple[Version, ...]:
    with contextlib.suppress(ToolyardError):  # an unreadable record counts as none
        return versions(skills.root, COMMUNITY, name)
    return ()


def _expand_name(name: str) -> list[str]:
    """Returns the skills in a folder of skills; any other name unchanged."""
    is_one = os.path.isfile(os.path.join(name, PAGE)) or not os.path.isdir(name)
    return [name] if is_one else find_skill_sources(name) or [name]


def _all_skill_names(skills: SkillsContext) -> list[str]:
    return [f"{entry.owner}/{entry.name}" for entry in skills.library.entries() if not entry.attached]


def _check_skill(skills: SkillsContext, name: str) -> _CheckedSkill:
    if os.path.exists(name) and (os.path.isfile(name) or os.path.isfile(os.path.join(name, PAGE))):
        return _CheckedSkill(name, _check_source(skills, name))
    entry = skills.find(name, history=False)
    if entry.attached:
        return _CheckedSkill(entry.path, _check_source(skills, entry.path))
    shown = f"{entry.owner}/{entry.name}"
    if entry.fault:
        return _CheckedSkill(shown, ValidationReport((entry.fault,)))
    checks = skills.yard.skill_checks(agent=skills.yard.agent if entry.owner == COMMUNITY else entry.owner)
    try:
        tree = read_skill_folder(skills.library.path_of(entry))
    except ToolyardError as error:
        return _CheckedSkill(shown, ValidationReport((error.message,)))
    return _CheckedSkill(shown, check_skill(checks, entry.name, tree, entry.owner))


def _check_source(skills: SkillsContext, path: str) -> ValidationReport:
    """Checks a skill that is not stored here; it is staged among the agent's skills for the test."""
    try:
        name, tree = read_source(path)
    except ToolyardError as error:
        return ValidationReport((error.message,))
    agent = skills.yard.agent
    with staged_skill(skills.root, agent, name, tree) as prelude:
        return check_skill(skills.yard.skill_checks(), name, tree, agent, prelude)


def _print(checked: _CheckedSkill) -> None:
    report = checked.report
    ran = ", its example ran" if report.example_result is not None and report.example_result.ok else ""
    result = click.style("passes", fg="green") + ran if report.ok else click.style("does not pass", fg="red")
    click.echo(f"{click.style(printable(checked.name), bold=True)}  {result}")
    for mark, text in (*(("✗", fault) for fault in report.faults), *(("·", remark) for remark in report.remarks)):
        first, *more = text.splitlines() or [""]
        click.echo(f"  {mark} {printable(first)}")
        for line in more:
            click.echo(f"      {printable(line)}")
