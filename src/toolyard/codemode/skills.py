"""Skills: workflows that an agent keeps, for itself and for others to find.

A skill is a folder `skills/<agent>/<name>/` of the workspace with a `SKILL.md` that says what it is for (the
agentskills format) and the Python package that does it. The agent's name is the one its socket has: whatever code
says, it writes under its own name. Everything goes through directory handles; no link leads a write elsewhere.
"""

from __future__ import annotations

import ast
import keyword
import os
from dataclasses import dataclass

from toolyard.codemode.handles import made, replaced
from toolyard.core.errors import SystemFault, ValidationError
from toolyard.fs.roots import Root

FOLDER = "skills"
_MOST_CODE = 100_000
_MOST_DESCRIPTION = 1_024  # what the format allows
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    code: str
    description: str

    def __post_init__(self) -> None:
        name = self.name
        if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name) or len(name) > _LONGEST_NAME:
            raise ValidationError.of(
                "name", "is no name for a skill", hint="Use small letters, digits and _, such as create_website."
            )
        if not self.description.strip() or len(self.description) > _MOST_DESCRIPTION:
            raise ValidationError.of(
                "description",
                f"has to be 1 to {_MOST_DESCRIPTION} characters",
                hint="Say in a sentence what it does.",
            )
        if len(self.code) > _MOST_CODE:
            raise ValidationError.of("code", "is too long for a skill", hint="Split it.")
        try:
            ast.parse(self.code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValidationError.of(
                "code", f"is no Python: {error}", hint="Run it once before you keep it."
            ) from None


def save(root: Root, agent: str, skill: Skill) -> str:
    """Keep a skill, in the place of one of the same name. Its folder, relative to the workspace."""
    texts = {"SKILL.md": _page(agent, skill), "__init__.py": _module(skill)}
    path = f"{FOLDER}/{agent}/{skill.name}"
    try:
        folder = made(root, path)
        try:
            for name, text in texts.items():
                replaced(folder, name, text.encode("utf-8", "replace"), synced=True)
        finally:
            os.close(folder)
    except OSError as error:
        raise SystemFault(
            f"The skill cannot be kept in {path}: {error.strerror}.",
            hint=f"{FOLDER}/ has to be a plain folder of the workspace.",
        ) from error
    return path


def _page(agent: str, skill: Skill) -> str:
    described = " ".join(skill.description.split())
    name = skill.name.replace("_", "-").strip("-").lower() or "skill"
    return (
        f"---\nname: {name}\ndescription: {_quoted(described)}\n---\n\n# {skill.name}\n\n{described}\n\n"
        f"```python\nfrom {FOLDER}.{agent}.{skill.name} import *\n```\n"
    )


def _quoted(text: str) -> str:
    """As YAML reads it, whatever is in it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _module(skill: Skill) -> str:
    """The code under its description, unless it brings a docstring of its own."""
    if ast.get_docstring(ast.parse(skill.code)) is not None:
        return skill.code if skill.code.endswith("\n") else skill.code + "\n"
    described = " ".join(skill.description.split())
    literal = '"""' + described.replace("\\", "\\\\").replace('"', '\\"') + '"""'
    return f"{literal}\n\n{skill.code.strip(chr(10))}\n"
