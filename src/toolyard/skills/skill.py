"""One skill as code submits it: a name, Python code, and a description. Validated on creation. Pure."""

from __future__ import annotations

import ast
import keyword
from dataclasses import dataclass

from toolyard.core.agent_folder_names import COMMUNITY
from toolyard.core.errors import ValidationError
from toolyard.skills.skill_md import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, PAGE, one_line, page_name, render_page

FOLDER = "skills"
MODULE = "__init__.py"
_MAX_CODE_CHARS = 100_000
_RESERVED = frozenset({COMMUNITY, "skills", "servers", "tools"})
"""`skills.community` is the folder of shared skills; the others are the names of sibling packages."""


def check_name(name: str) -> None:
    """Raises ValidationError if the name cannot be imported, or could lead to another folder."""
    if (
        not name.isascii()
        or not name.isidentifier()
        or keyword.iskeyword(name)
        or len(name) > MAX_NAME_CHARS
        or name in _RESERVED
        or (name.startswith("__") and name.endswith("__"))
    ):
        raise ValidationError.of(
            "name", "is not a valid skill name", hint="Use lowercase letters, digits and _, such as create_website."
        )


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill to be saved."""

    name: str
    code: str
    description: str

    def __post_init__(self) -> None:
        check_name(self.name)
        if not one_line(self.description) or len(self.description) > MAX_DESCRIPTION_CHARS:
            raise ValidationError.of(
                "description",
                f"has to be 1 to {MAX_DESCRIPTION_CHARS} characters",
                hint="Say in a sentence what it does.",
            )
        if len(self.code) > _MAX_CODE_CHARS:
            raise ValidationError.of("code", "is too long for a skill", hint="Split it.")
        parse_python(self.code)

    def files(self, owner: str) -> dict[str, bytes]:
        """Returns the files of the skill's folder, for the owner's folder name `owner`."""
        texts = {PAGE: self._page_text(owner), MODULE: self._module_text()}
        return {name: text.encode("utf-8", "replace") for name, text in texts.items()}

    def _page_text(self, owner: str) -> str:
        described = one_line(self.description)
        body = f"# {self.name}\n\n{described}\n\n```python\n{import_line(owner, self.name)}\n```\n"
        return render_page(page_name(self.name), described, body)

    def _module_text(self) -> str:
        """Returns the code, with the description as its docstring unless it has one."""
        if ast.get_docstring(parse_python(self.code)) is not None:
            return self.code if self.code.endswith("\n") else self.code + "\n"
        described = one_line(self.description)
        literal = '"""' + described.replace("\\", "\\\\").replace('"', '\\"') + '"""'
        return f"{literal}\n\n{self.code.strip(chr(10))}\n"


def import_line(owner: str, name: str) -> str:
    """Returns the import statement that SKILL.md shows."""
    return f"from {module_of(owner, name)} import *"


def module_of(owner: str, name: str) -> str:
    """Returns the module to import. If the owner's folder is not a Python name, the skill's name alone is used."""
    return f"{FOLDER}.{owner}.{name}" if owner.isidentifier() else f"{FOLDER}.{name}"


def parse_python(code: str) -> ast.Module:
    """Parses the code. Raises ValidationError if it is not valid Python."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValidationError.of(
            "code", f"is not valid Python: {error}", hint="Run it once before you save it."
        ) from None
