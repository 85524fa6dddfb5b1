"""Skills as resources: their addresses, their manifests (`skills/list`, `skills/get`), and the file behind one.

Every file of a skill is `skill://<owner>/<name>/<path>`, as the protocol's extension for skills has it. Each path is
judged by the policy as a file is: what an agent may not read is neither listed nor served, and a skill with such a
file has no manifest, which would have to be whole. Not shown among the tools.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from toolyard.core.calls import Result
from toolyard.core.errors import ToolyardError, ValidationError
from toolyard.dispatch.call_context import Gate
from toolyard.dispatch.tool import Arguments, Tool, output_schema

if TYPE_CHECKING:
    from toolyard.skills.discovery import SkillEntry

LIST_SKILLS, GET_SKILL = "skills/list", "skills/get"
EXTENSION = "io.modelcontextprotocol/skills"
PREFIX = "skill://"
_PAGE_NAME = "SKILL.md"
_A_PAGE = 50


class ListSkillsArguments(Arguments):
    after: str = ""
    """The last address of the page before."""


class GetSkillArguments(Arguments):
    uri: str


@dataclass(frozen=True, slots=True)
class SkillPage:
    """The page of one skill that may be read here."""

    uri: str
    folder: str
    entry: SkillEntry

    @property
    def key(self) -> str:
        """As uses of it are counted."""
        return self.folder if self.entry.attached else f"{self.entry.owner}/{self.entry.name}"


def pages(gate: Gate) -> list[SkillPage]:
    """Of every skill that may be read, by address."""
    mode = gate.resources.codemode
    if mode is None:
        return []
    shelf = mode.shelf
    found = [SkillPage(f"{uri}/{_PAGE_NAME}", shelf.path_of(entry), entry) for uri, entry in shelf.served()]
    return sorted(
        (page for page in found if gate.visible(os.path.join(page.folder, _PAGE_NAME))), key=lambda page: page.uri
    )


def file_of(uri: str, gate: Gate) -> tuple[str, SkillPage]:
    """The path of the file that an address names, and the skill it belongs to."""
    from toolyard.skills.skill_files import is_left_out

    for page in pages(gate):
        root = page.uri.removesuffix(_PAGE_NAME)
        if uri.startswith(root):
            inside = unquote(uri.removeprefix(root), errors="surrogateescape")
            if not inside or any(not part or is_left_out(part) for part in inside.split("/")):
                break
            return os.path.join(page.folder, inside), page
    raise _unknown()


def list_manifests(arguments: ListSkillsArguments, gate: Gate) -> Result:
    rest = [page for page in pages(gate) if page.uri > arguments.after]
    shown = rest[:_A_PAGE]
    manifests = (_manifest(page, gate) for page in shown)
    facts: dict[str, Any] = {"skills": [manifest for manifest in manifests if manifest is not None]}
    if len(rest) > _A_PAGE:
        facts["next"] = shown[-1].uri
    return Result((), facts)


def get_manifest(arguments: GetSkillArguments, gate: Gate) -> Result:
    found = next((page for page in pages(gate) if page.uri == arguments.uri), None)
    manifest = _manifest(found, gate) if found is not None else None
    if manifest is None:
        raise _unknown()
    return Result((), {"skill": manifest})


def _manifest(page: SkillPage, gate: Gate) -> dict[str, Any] | None:
    from toolyard.skills.skill_md import parse_page

    try:
        files = dict(_files(page, gate))
        header = parse_page(files[_PAGE_NAME].decode()).header
    except (ToolyardError, OSError, KeyError, UnicodeDecodeError):
        return None  # it cannot be told whole
    root = page.uri.removesuffix(_PAGE_NAME)
    resources = [
        {
            "uri": f"{root}{quote(os.fsencode(path))}",
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "size": len(data),
        }
        for path, data in files.items()
    ]
    return {"uri": page.uri, "frontmatter": dict(header), "resources": resources}


def _files(page: SkillPage, gate: Gate) -> Iterator[tuple[str, bytes]]:
    from toolyard.files.roots import Root
    from toolyard.skills.skill_files import read_tree

    root = Root(page.folder)
    try:
        folder = root.open_folder(".")
        try:
            tree = read_tree(folder, page.folder)
        finally:
            os.close(folder)
        for path, file in tree.items():
            if not gate.visible(os.path.join(root.path, path)):
                raise _unknown()
            yield path, file.data
    finally:
        root.close()


def _unknown() -> ValidationError:
    return ValidationError.of("uri", "names no skill here", hint="skills/list and resources/list give them.")


SKILL_TOOLS: dict[str, Tool[Any]] = {
    LIST_SKILLS: Tool(
        name=LIST_SKILLS,
        description="List the skills with their files.",
        arguments=ListSkillsArguments,
        output=output_schema(("next",), skills="array", next="string"),
        run=list_manifests,
        kind="read",
    ),
    GET_SKILL: Tool(
        name=GET_SKILL,
        description="Tell one skill's files.",
        arguments=GetSkillArguments,
        output=output_schema(skill="object"),
        run=get_manifest,
        kind="read",
    ),
}
