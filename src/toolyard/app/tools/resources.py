"""The workspace's files as resources: a paged list, and one file as text or bytes. Not shown among the tools."""

from __future__ import annotations

import base64
import mimetypes
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from toolyard.app.gate import Gate
from toolyard.app.tool import Arguments, Tool, output_schema
from toolyard.core.actions import Kind
from toolyard.core.calls import Result
from toolyard.core.errors import ValidationError
from toolyard.fs import files
from toolyard.fs.content.kinds import Category, sniff
from toolyard.fs.content.text import decode
from toolyard.fs.search.listing import list_tree

LIST_RESOURCES = "resources/list"
READ_RESOURCE = "resources/read"
_PAGE = 200
_DEFAULT_TYPE = "text/plain"


class ListArguments(Arguments):
    after: str = ""
    """The last path of the page before."""


class ReadArguments(Arguments):
    uri: str


def uri_of(path: str) -> str:
    return "file://" + quote(path)


def path_of(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that do not match, characters that only look like a host's
        raise _not_a_file_uri() from None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
        raise _not_a_file_uri()
    return unquote(parts.path, errors="surrogateescape")


def _not_a_file_uri() -> ValidationError:
    return ValidationError.of(
        "uri", "is not a file URI", hint="Use file:///path/to/file, as resources/list gives it."
    )


def list_resources(arguments: ListArguments, gate: Gate) -> Result:
    with gate.target(".", Kind.READ) as target:
        tree = list_tree(
            target.root, ".", ignore=(), visible=gate.visible, limits=gate.limits, deadline=gate.deadline
        )
    paths = sorted(entry.path for entry in tree.entries if entry.kind == "file")
    rest = [path for path in paths if path > arguments.after]
    page = rest[:_PAGE]
    root = gate.mounts.workspace.path
    listed = [{"uri": uri_of(f"{root}/{path}"), "name": path, "media_type": _media_type(path)} for path in page]
    facts: dict[str, Any] = {"resources": listed}
    if len(rest) > _PAGE:
        facts["next"] = page[-1]
    return Result((), facts)


def read_resource(arguments: ReadArguments, gate: Gate) -> Result:
    with gate.target(path_of(arguments.uri), Kind.READ, argument="uri") as target:
        contents = files.read(target, gate.limits)
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
}
