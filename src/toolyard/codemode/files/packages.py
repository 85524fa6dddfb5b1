"""Generates a server's folder: a file for each tool, and an `__init__.py` that imports them lazily."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from toolyard.codemode.files.indexes import index_json, index_markdown
from toolyard.codemode.files.literals import clip_text, python_literal
from toolyard.codemode.files.names import FOLDERS, OWN_SERVER, SERVER_FOLDERS, TOOLS, spell_names
from toolyard.codemode.files.tool_file import (
    CompiledServer,
    ToolFile,
    ToolFileLocation,
    decorator_call,
    render_tool_file,
)
from toolyard.core.upstream import Json, ServerListing, ToolSchema

_LONGEST_VERSION = 100
_NO_SCHEMAS: Mapping[str, Json] = {}


def folder_names(servers: Iterable[str]) -> dict[str, str]:
    """Returns the folder of each server. Pass all names at once: clashing names get a hash each."""
    names = list(dict.fromkeys(servers))
    return dict(zip(names, spell_names(names, SERVER_FOLDERS), strict=True))


def code_name(server: str, folder: str) -> str:
    """Returns the name that code and models use for an attached server: its own, unless Toolyard's tools have it."""
    return folder if server == OWN_SERVER else server


def server_for_code_name(name: str, servers: Iterable[str]) -> str:
    """Returns the attached server for a name in code or `in_context_tools`: the inverse of `code_name`."""
    names = list(servers)
    return OWN_SERVER if OWN_SERVER in names and name == folder_names(names)[OWN_SERVER] else name


def collision_notices(servers: Iterable[str]) -> tuple[str, ...]:
    """Returns notices for the user if an attached server has the name of Toolyard's own file tools."""
    names = list(servers)
    if OWN_SERVER not in names:
        return ()
    folder = folder_names(names)[OWN_SERVER]
    ours = f"The server {OWN_SERVER!r} has the name of Toolyard's own file tools, which keep it."
    theirs = f"Its tools are imported from servers.{folder}, and `in_context_tools` calls them {folder}."
    return (f"{ours} {theirs} Give the server another name to avoid this.",)


def compile_server(
    listing: ServerListing, inferred: Mapping[str, Json] = _NO_SCHEMAS, folder: str = ""
) -> CompiledServer:
    """Generates the folder of a server. `folder` is its name from `folder_names`, optional for a single server.

    `inferred` has JSON Schemas by tool name, inferred from real results, for tools that declare no output.
    """
    folder = folder or folder_names([listing.server])[listing.server]
    functions = spell_names([tool.name for tool in listing.tools], TOOLS)
    made: list[ToolFile] = []
    first: dict[str, str] = {}
    for tool, function in zip(listing.tools, functions, strict=True):
        called = code_name(listing.server, folder)
        place = ToolFileLocation("servers", folder, decorator_call("tool", called, tool.name), "tool")
        made.append(render_tool_file(tool, function, place, inferred.get(tool.name), first.get(tool.name, "")))
        first.setdefault(tool.name, function)
    return _build_package("servers", folder, listing, made)


def compile_own_tools(tools: Sequence[ToolSchema], version: str) -> CompiledServer:
    """Generates the folder `servers/filesystem` of Toolyard's own file tools."""
    names = [tool.name for tool in tools]
    made = [
        render_tool_file(
            tool,
            function,
            ToolFileLocation("servers", OWN_SERVER, decorator_call("tool", OWN_SERVER, tool.name), "tool"),
        )
        for tool, function in zip(tools, spell_names(names, TOOLS), strict=True)
    ]
    return _build_package("servers", OWN_SERVER, ServerListing(OWN_SERVER, tuple(tools), version), made)


def compile_group(group: str, tools: Sequence[ToolSchema]) -> CompiledServer:
    """Generates the folder `tools/<group>` of custom tools, whose names are `group.tool`."""
    (folder,) = spell_names([group], FOLDERS)
    own = [tool.name.removeprefix(f"{group}.") for tool in tools]
    made = [
        render_tool_file(
            tool,
            function,
            ToolFileLocation("tools", folder, decorator_call("custom_tool", f"{group}.{name}"), "custom_tool"),
        )
        for tool, name, function in zip(tools, own, spell_names(own, TOOLS), strict=True)
    ]
    return _build_package("tools", folder, ServerListing(group, tuple(tools)), made)


def _build_package(root: str, folder: str, listing: ServerListing, made: Sequence[ToolFile]) -> CompiledServer:
    files = {f"{one.tool.module}.py": one.text for one in made}
    files.update({f"{one.tool.module}.txt": _encodable_text(one.rest) for one in made if one.rest})
    tools = tuple(one.tool for one in made)
    server = listing.server
    version = clip_text(listing.version, _LONGEST_VERSION)
    fingerprint = hashlib.sha256(
        json.dumps([server, version, files], ensure_ascii=True, separators=(",", ":")).encode()
    ).hexdigest()
    files["__init__.py"] = _init_text(sorted(tool.function for tool in tools))
    files["__version__.py"] = (
        f"__version__ = {python_literal(version)}\n__mcp_server__ = {python_literal(server)}\n"
        f"__fingerprint__ = {python_literal(fingerprint)}\n"
    )
    files["index.json"] = index_json(server, version, fingerprint, tools, listing.tools)
    files["INDEX.md"] = index_markdown(f"{root}.{folder}", server, version, tools)
    return CompiledServer(server, folder, files, tools, version)


def _init_text(functions: Sequence[str]) -> str:
    """Returns an `__init__.py` that imports tools on first use. Type checkers see all of them."""
    listed = "".join(f"    {python_literal(name)},\n" for name in functions)
    if not functions:
        return "__all__: list[str] = []\n"
    shown = "".join(f"    from .{name} import {name} as {name}\n" for name in functions)
    return (
        "from typing import TYPE_CHECKING\n\nfrom toolyard_runtime.tool import lazy_tools\n\n"
        f"if TYPE_CHECKING:\n{shown}\n__all__ = [\n{listed}]\n"
        "__getattr__, __dir__ = lazy_tools(__name__, __all__)\n"
    )


def _encodable_text(text: str) -> str:
    """Replaces lone surrogates, which UTF-8 cannot represent."""
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"
