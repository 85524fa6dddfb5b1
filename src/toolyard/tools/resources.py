"""The workspace's files and skills as resources: a paged list, and one file as text or bytes. Not among the tools."""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import replace
from typing import Any

from toolyard.core.actions import Kind
from toolyard.core.calls import Result
from toolyard.core.errors import ValidationError
from toolyard.core.uris import path_of, uri_of
from toolyard.dispatch.call_context import Gate
from toolyard.dispatch.tool import Arguments, Tool, output_schema
from toolyard.files import file_io
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import decode
from toolyard.files.search.folder_listing import list_tree
from toolyard.tools.skill_resources import PREFIX, SKILL_TOOLS, file_of, pages

LIST_RESOURCES = "resources/list"
READ_RESOURCE = "resources/read"
_PAGE = 200
_DEFAULT_TYPE = "text/plain"
_PAGE_TYPE = "text/markdown"


class ListArguments(Arguments):
    after: str = ""
    """The last path of the page before."""


class ReadArguments(Arguments):
    uri: str


def named_path(uri: str) -> str:
    path = path_of(uri)
    if path is None:
        raise _not_a_file_uri()
    return path


def _not_a_file_uri() -> ValidationError:
    return ValidationError.of(
        "uri", "is not a file URI", hint="Use file:///path/to/file, as resources/list gives it."
    )


def list_resources(arguments: ListArguments, gate: Gate) -> Result:
    """The pages of the skills, then the files."""
    return _paged(arguments.after, gate, with_files=True)


def list_skill_resources(arguments: ListArguments, gate: Gate) -> Result:
    return _paged(arguments.after, gate, with_files=False)


def _paged(after: str, gate: Gate, *, with_files: bool) -> Result:
    is_among_skills = not after or after.startswith(PREFIX)
    page = _skills(after, gate)[: _PAGE + 1] if is_among_skills else []
    if with_files and len(page) <= _PAGE:
        page += _files("" if is_among_skills else after, gate)[: _PAGE + 1 - len(page)]
    facts: dict[str, Any] = {"resources": [listed for _, listed in page[:_PAGE]]}
    if len(page) > _PAGE:
        facts["next"] = page[_PAGE - 1][0]
    return Result((), facts)


_Listed = tuple[str, dict[str, str]]
"""What a page that begins after it is asked for by, and what is said of it."""


def _skills(after: str, gate: Gate) -> list[_Listed]:
    return [
        (
            page.uri,
            {
                "uri": page.uri,
                "name": page.entry.title,
                "media_type": _PAGE_TYPE,
                "description": page.entry.description,
            },
        )
        for page in pages(gate)
        if page.uri > after
    ]


def _files(after: str, gate: Gate) -> list[_Listed]:
    with gate.target(".", Kind.READ) as target:
        tree = list_tree(
            target.root, ".", ignore=(), visible=gate.visible, limits=gate.limits, deadline=gate.deadline
        )
    root = gate.mounts.workspace.path
    paths = sorted(entry.path for entry in tree.entries if entry.kind == "file" and entry.path > after)
    return [
        (path, {"uri": uri_of(f"{root}/{path}"), "name": path, "media_type": _media_type(path)})
        for path in paths[: _PAGE + 1]
    ]


def read_resource(arguments: ReadArguments, gate: Gate) -> Result:
    if arguments.uri.startswith(PREFIX):
        return read_skill_resource(arguments, gate)
    return _read(named_path(arguments.uri), gate)


def read_skill_resource(arguments: ReadArguments, gate: Gate) -> Result:
    path, page = file_of(arguments.uri, gate)
    result = _read(path, gate)
    if arguments.uri == page.uri:
        gate.codemode.skill_uses.used(page.key)
    return result


def _read(path: str, gate: Gate) -> Result:
    with gate.target(path, Kind.READ, argument="uri") as target:
        contents = file_io.read(target, gate.limits)
        gate.seen.record(gate.call.session, target.real, contents.data)
        kind = sniff(contents.data, target.path)
    if kind.category in {Category.TEXT, Category.NOTEBOOK}:
        text = decode(contents.data).text.encode("utf-8", "replace").decode()
        return Result((), {"text": text, "media_type": _media_type(target.path)})
    return Result((), {"blob": base64.b64encode(contents.data).decode(), "media_type": kind.media_type})


def _media_type(path: str) -> str:
    return mimetypes.guess_type(path)[0] or _DEFAULT_TYPE


RESOURCE_TOOLS: dict[str, Tool[Any]] = {
    LIST_RESOURCES: Tool(
        name=LIST_RESOURCES,
        description="List the workspace's files.",
        arguments=ListArguments,
        output=output_schema(("next",), resources="array", next="string"),
        run=list_resources,
        kind="read",
    ),
    READ_RESOURCE: Tool(
        name=READ_RESOURCE,
        description="Read one of the workspace's files.",
        arguments=ReadArguments,
        output=output_schema(("text", "blob"), text="string", blob="string", media_type="string"),
        run=read_resource,
        kind="read",
    ),
    **SKILL_TOOLS,
}
SKILL_RESOURCE_TOOLS: dict[str, Tool[Any]] = {
    LIST_RESOURCES: replace(RESOURCE_TOOLS[LIST_RESOURCES], run=list_skill_resources),
    READ_RESOURCE: replace(RESOURCE_TOOLS[READ_RESOURCE], run=read_skill_resource),
    **SKILL_TOOLS,
}
"""For who gets no files: code may import skills, and so its client may read about them."""
