"""The workspace's files and skills as MCP resources: a paged list, and one file as text or bytes.

Not listed as tools.
"""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import replace
from typing import Any

from toolyard.core.actions import Kind
from toolyard.core.calls import Result
from toolyard.core.errors import ValidationError
from toolyard.core.uris import path_to_uri, uri_to_path
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.tool import Arguments, Tool, output_schema
from toolyard.files import file_io
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import decode
from toolyard.files.search.folder_listing import list_tree
from toolyard.tools.skill_resources import PREFIX, SKILL_TOOLS, resolve_uri, skill_pages

LIST_RESOURCES = "resources/list"
READ_RESOURCE = "resources/read"
_PAGE_SIZE = 200
_DEFAULT_TYPE = "text/plain"
_PAGE_TYPE = "text/markdown"


class ListArguments(Arguments):
    after: str = ""
    """The last path of the previous page."""


class ReadArguments(Arguments):
    uri: str


def path_from_uri(uri: str) -> str:
    """Returns the path of a file URI. Raises ValidationError for any other URI."""
    path = uri_to_path(uri)
    if path is None:
        raise _not_a_file_uri()
    return path


def _not_a_file_uri() -> ValidationError:
    return ValidationError.of(
        "uri", "is not a file URI", hint="Use file:///path/to/file, as resources/list gives it."
    )


def list_resources(arguments: ListArguments, ctx: CallContext) -> Result:
    """Lists the pages of the skills, then the files."""
    return _resource_page(arguments.after, ctx, with_files=True)


def list_skill_resources(arguments: ListArguments, ctx: CallContext) -> Result:
    """Lists only the pages of the skills."""
    return _resource_page(arguments.after, ctx, with_files=False)


def _resource_page(after: str, ctx: CallContext, *, with_files: bool) -> Result:
    is_among_skills = not after or after.startswith(PREFIX)
    page = _skill_resources(after, ctx)[: _PAGE_SIZE + 1] if is_among_skills else []
    if with_files and len(page) <= _PAGE_SIZE:
        page += _file_resources("" if is_among_skills else after, ctx)[: _PAGE_SIZE + 1 - len(page)]
    facts: dict[str, Any] = {"resources": [listed for _, listed in page[:_PAGE_SIZE]]}
    if len(page) > _PAGE_SIZE:
        facts["next"] = page[_PAGE_SIZE - 1][0]
    return Result((), facts)


_ListedResource = tuple[str, dict[str, str]]
"""The key from which the next page continues, and the resource's fields."""


def _skill_resources(after: str, ctx: CallContext) -> list[_ListedResource]:
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
        for page in skill_pages(ctx)
        if page.uri > after
    ]


def _file_resources(after: str, ctx: CallContext) -> list[_ListedResource]:
    with ctx.open(".", Kind.READ) as target:
        tree = list_tree(
            target.root,
            ".",
            ignore=(),
            visible=ctx.permissions.is_visible,
            limits=ctx.limits,
            deadline=ctx.budget.deadline,
        )
    root = ctx.mounts.workspace.path
    paths = sorted(entry.path for entry in tree.entries if entry.kind == "file" and entry.path > after)
    return [
        (path, {"uri": path_to_uri(f"{root}/{path}"), "name": path, "media_type": _media_type(path)})
        for path in paths[: _PAGE_SIZE + 1]
    ]


def read_resource(arguments: ReadArguments, ctx: CallContext) -> Result:
    if arguments.uri.startswith(PREFIX):
        return read_skill_resource(arguments, ctx)
    return _read_file(path_from_uri(arguments.uri), ctx)


def read_skill_resource(arguments: ReadArguments, ctx: CallContext) -> Result:
    path, page = resolve_uri(arguments.uri, ctx)
    result = _read_file(path, ctx)
    if arguments.uri == page.uri:
        ctx.codemode.skill_uses.record_use(page.key)
    return result


def _read_file(path: str, ctx: CallContext) -> Result:
    with ctx.open(path, Kind.READ, argument="uri") as target:
        contents = file_io.read(target, ctx.limits)
        ctx.read_tracker.record(ctx.call.session, target.real, contents.data)
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
"""For clients without file access: code may import skills, so the client may read about them."""
