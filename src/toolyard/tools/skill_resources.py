"""Skills as resources: their URIs, their manifests (`skills/list`, `skills/get`), and the files behind them.

Every file of a skill is `skill://<owner>/<name>/<path>`, as the protocol's extension for skills defines. The policy
applies to each path: a file that an agent may not read is neither listed nor served, and a skill with such a file has
no manifest, because a manifest must be complete. Not listed as tools.
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
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool, output_schema

if TYPE_CHECKING:
    from toolyard.skills.discovery import SkillEntry

LIST_SKILLS, GET_SKILL = "skills/list", "skills/get"
EXTENSION = "io.modelcontextprotocol/skills"
PREFIX = "skill://"
_PAGE_NAME = "SKILL.md"
_PAGE_SIZE = 50


class ListSkillsArguments(Arguments):
    after: str = ""
    """The last URI of the previous page."""


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
        """The key under which its uses are counted."""
        return self.folder if self.entry.attached else f"{self.entry.owner}/{self.entry.name}"


def skill_pages(ctx: CallContext) -> list[SkillPage]:
    """Returns the pages of all readable skills, sorted by URI."""
    shelf = ctx.codemode.skill_library
    found = [
        SkillPage(f"{uri}/{_PAGE_NAME}", shelf.path_of(entry), entry) for uri, entry in shelf.addressable_skills()
    ]
    return sorted(
        (page for page in found if ctx.permissions.is_visible(os.path.join(page.folder, _PAGE_NAME))),
        key=lambda page: page.uri,
    )


def resolve_uri(uri: str, ctx: CallContext) -> tuple[str, SkillPage]:
    """Returns the path of the file that a URI names, and the skill it belongs to."""
    from toolyard.skills.skill_files import is_excluded

    for page in skill_pages(ctx):
        root = page.uri.removesuffix(_PAGE_NAME)
        if uri.startswith(root):
            inside = unquote(uri.removeprefix(root), errors="surrogateescape")
            if not inside or any(not part or is_excluded(part) for part in inside.split("/")):
                break
            return os.path.join(page.folder, inside), page
    raise _unknown_skill()


def list_manifests(arguments: ListSkillsArguments, ctx: CallContext) -> Result:
    """Lists the manifests of the readable skills."""
    rest = [page for page in skill_pages(ctx) if page.uri > arguments.after]
    shown = rest[:_PAGE_SIZE]
    manifests = (_manifest(page, ctx) for page in shown)
    facts: dict[str, Any] = {"skills": [manifest for manifest in manifests if manifest is not None]}
    if len(rest) > _PAGE_SIZE:
        facts["next"] = shown[-1].uri
    return Result((), facts)


def get_manifest(arguments: GetSkillArguments, ctx: CallContext) -> Result:
    """Returns the manifest of one skill."""
    found = next((page for page in skill_pages(ctx) if page.uri == arguments.uri), None)
    manifest = _manifest(found, ctx) if found is not None else None
    if manifest is None:
        raise _unknown_skill()
    return Result((), {"skill": manifest})


def _manifest(page: SkillPage, ctx: CallContext) -> dict[str, Any] | None:
    from toolyard.skills.skill_md import parse_page

    try:
        files = dict(_files(page, ctx))
        header = parse_page(files[_PAGE_NAME].decode()).header
    except (ToolyardError, OSError, KeyError, UnicodeDecodeError):
        return None  # a manifest must be complete
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


def _files(page: SkillPage, ctx: CallContext) -> Iterator[tuple[str, bytes]]:
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
            if not ctx.permissions.is_visible(os.path.join(root.path, path)):
                raise _unknown_skill()
            yield path, file.data
    finally:
        root.close()


def _unknown_skill() -> ValidationError:
    return ValidationError.of("uri", "does not name a skill here", hint="skills/list and resources/list give them.")


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
