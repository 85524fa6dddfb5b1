"""Reads and writes `SKILL.md`: a YAML header between two lines of dashes, then Markdown. Pure.

    name            1 to 64 lowercase letters, digits and single dashes
    description     1 to 1,024 characters: what it does, and when to use it
    license, compatibility (500 characters), metadata (names and values), allowed-tools    optional

Files of other authors are read leniently: other keys are kept, and an invalid name is a fault, not an error, as long
as there are a name and a description to show.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolyard.config.yaml_tree import Plain, parse_yaml
from toolyard.core.errors import ConfigError, ValidationError

PAGE = "SKILL.md"
MAX_DESCRIPTION_CHARS = 1_024
MAX_NAME_CHARS = 64
_MAX_COMPATIBILITY_CHARS = 500
_MAX_HEADER_CHARS = 20_000
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HEADER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_UNQUOTED = re.compile(r"^((?:name|description|license|compatibility):[ \t]+)([^\s\"'|>\[{&*!%@`#].*)$", re.MULTILINE)
_NOT_YAML = "header: is not valid YAML; put values with a colon in quotes"
_CONTROL = frozenset({"Cc", "Cs"})
_KNOWN_KEYS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}


@dataclass(frozen=True, slots=True)
class SkillMarkdown:
    """A parsed SKILL.md."""

    name: str
    description: str
    header: Mapping[str, Plain]
    """The complete header, including unknown keys."""
    body: str
    faults: tuple[str, ...] = ()
    """Where the file deviates from the format."""

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata as text."""
        given = self.header.get("metadata")
        return {key: str(value) for key, value in given.items()} if isinstance(given, dict) else {}


def parse_page(text: str) -> SkillMarkdown:
    """Parses a SKILL.md. Raises ValidationError if it has no name or no description."""
    found = _HEADER.match(text)
    if found is None:
        raise _page_error("does not begin with a header between two lines of `---`")
    if len(found[1]) > _MAX_HEADER_CHARS:
        raise _page_error(f"has a header of more than {_MAX_HEADER_CHARS:,} characters")
    header, bent = _parse_header(found[1])
    if not isinstance(header, dict):
        raise _page_error("has no names and values in its header")
    name, description = (header.get(key) for key in ("name", "description"))
    if not isinstance(name, str) or not name.strip():
        raise _page_error("has no `name`")
    if not isinstance(description, str) or not description.strip():
        raise _page_error("has no `description`")
    return SkillMarkdown(
        name, description, header, text[found.end() :], (*bent, *_format_faults(name, description, header))
    )


def _parse_header(text: str) -> tuple[Plain, tuple[str, ...]]:
    """Returns the header's values and faults. Unquoted values with a colon are accepted, as other readers do."""
    for candidate, faults in ((text, ()), (_UNQUOTED.sub(_quote_match, text), (_NOT_YAML,))):
        try:
            located = parse_yaml(candidate, name="header")
        except ConfigError as error:
            fault = error
        else:
            return None if located is None else located.to_plain(), faults
    raise _page_error(f"has a header that cannot be read: {fault.message}") from None


def _quote_match(line: re.Match[str]) -> str:
    return f"{line[1]}{_yaml_quote(line[2].strip())}"


def _format_faults(name: str, description: str, header: Mapping[str, Any]) -> list[str]:
    faults: list[str] = []
    if not is_page_name(name):
        faults.append(f"name: has to be 1 to {MAX_NAME_CHARS} lowercase letters, digits and single dashes")
    if len(description) > MAX_DESCRIPTION_CHARS:
        faults.append(f"description: has more than {MAX_DESCRIPTION_CHARS:,} characters")
    compatibility = header.get("compatibility")
    if compatibility is not None and (
        not isinstance(compatibility, str) or not 0 < len(compatibility) <= _MAX_COMPATIBILITY_CHARS
    ):
        faults.append(f"compatibility: has to be 1 to {_MAX_COMPATIBILITY_CHARS} characters")
    if not isinstance(header.get("metadata", {}), dict):
        faults.append("metadata: has to be names and values")
    faults += [f"{key}: is not a key of the format" for key in header if key not in _KNOWN_KEYS]
    return faults


def is_page_name(name: str) -> bool:
    """Whether the name follows the format's rules."""
    return _NAME.fullmatch(name) is not None and len(name) <= MAX_NAME_CHARS


def one_line(text: str) -> str:
    """Returns the description without line breaks and control characters."""
    return " ".join("".join(" " if unicodedata.category(c) in _CONTROL else c for c in text).split())


def render_page(name: str, description: str, body: str) -> str:
    """Returns the text of a SKILL.md. `description` is one line."""
    return f"---\nname: {page_name(name)}\ndescription: {_yaml_quote(description)}\n---\n\n{body}"


def page_name(module: str) -> str:
    """Returns a Python name in the format's spelling: `create_website` becomes `create-website`."""
    return re.sub(r"[^a-z0-9]+", "-", module.lower()).strip("-") or "skill"


def module_name(name: str) -> str:
    """Returns the Python spelling of a page name: `create-website` becomes `create_website`."""
    return name.replace("-", "_")


def _yaml_quote(text: str) -> str:
    """Returns the text as a quoted YAML scalar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _page_error(why: str) -> ValidationError:
    return ValidationError.of(
        PAGE, why, hint="It begins with `---`, `name: …`, `description: …`, `---`, each on a line."
    )
