"""Skills: reusable workflows of agents, stored as folders that any agentskills reader and any Python can use."""

from toolyard.skills.archive import export_skill, import_skill
from toolyard.skills.discovery import SkillEntry, find_skill, list_skills
from toolyard.skills.skill import Skill
from toolyard.skills.store import promote, remove, restore, save, versions
from toolyard.skills.validation import ExampleRunner, SkillChecks, SkillExample, ValidationReport, check_skill

__all__ = [
    "ExampleRunner",
    "Skill",
    "SkillChecks",
    "SkillEntry",
    "SkillExample",
    "ValidationReport",
    "check_skill",
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
