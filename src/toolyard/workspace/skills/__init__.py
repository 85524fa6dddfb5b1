"""Skills: workflows that agents keep, as folders that any reader of the agentskills format and any Python can use."""

from toolyard.workspace.skills.archive import export_skill, import_skill
from toolyard.workspace.skills.checking import Checks, Example, Report, Runner, check
from toolyard.workspace.skills.listing import SkillEntry, find_skill, list_skills
from toolyard.workspace.skills.skill import Skill
from toolyard.workspace.skills.store import promote, remove, restore, save, versions

__all__ = [
    "Checks",
    "Example",
    "Report",
    "Runner",
    "Skill",
    "SkillEntry",
    "check",
    "export_skill",
    "find_skill",
    "import_skill",
    "list_skills",
    "promote",
    "remove",
    "restore",
    "save",
    "versions",
]
