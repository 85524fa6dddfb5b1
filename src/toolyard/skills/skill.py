"""One skill as code hands it in: a name, Python, and a sentence. Checked when it is made. Pure."""

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
"""`skills.community` is the folder of everybody's skills; the others would be taken for the packages beside it."""


def check_name(name: str) -> None:
    """Raises ValidationError for what could not be imported, or could lead elsewhere."""
    if (
        not name.isascii()
        or not name.isidentifier()
        or keyword.iskeyword(name)
        or len(name) > MAX_NAME_CHARS
        or name in _RESERVED
        or (name.startswith("__") and name.endswith("__"))
    ):
        raise ValidationError.of(
            "name", "is no name for a skill", hint="Use small letters, digits and _, such as create_website."
        )


@dataclass(frozen=True, slots=True)
class Skill:
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
        """What lies in its folder, among the skills of `owner` (a folder's name)."""
        texts = {PAGE: self._page_text(owner), MODULE: self._module_text()}
        return {name: text.encode("utf-8", "replace") for name, text in texts.items()}

    def _page_text(self, owner: str) -> str:
        described = one_line(self.description)
        body = f"# {self.name}\n\n{described}\n\n```python\n{import_line(owner, self.name)}\n```\n"
        return render_page(page_name(self.name), described, body)

    def _module_text(self) -> str:
        """The code under its description, unless it brings a docstring of its own."""
        if ast.get_docstring(parse_python(self.code)) is not None:
            return self.code if self.code.endswith("\n") else self.code + "\n"
        described = one_line(self.description)
        literal = '"""' + described.replace("\\", "\\\\").replace('"', '\\"') + '"""'
        return f"{literal}\n\n{self.code.strip(chr(10))}\n"


def import_line(owner: str, name: str) -> str:
    """How the page says the skill is used."""
    return f"from {module_of(owner, name)} import *"


def module_of(owner: str, name: str) -> str:
    """What is imported. An agent's folder may have a name that Python cannot spell: then by the skill's alone."""
    return f"{FOLDER}.{owner}.{name}" if owner.isidentifier() else f"{FOLDER}.{name}"


def parse_python(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValidationError.of("code", f"is no Python: {error}", hint="Run it once before you keep it.") from None
