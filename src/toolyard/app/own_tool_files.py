"""Which of Toolyard's own file tools sandboxed code can import, and the tool files packaged with the runtime."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from toolyard import __version__
from toolyard.app.toolsets import is_served
from toolyard.codemode.files import OWN_SERVER, compile_own_tools
from toolyard.codemode.generated_folder import SERVERS
from toolyard.core.upstream import ServerListing, ToolSchema
from toolyard.tools.reference.toolset import REFERENCE_TOOLS

if TYPE_CHECKING:
    from toolyard.config.models import Agent
    from toolyard.dispatch.tool import Tool


OWN_TOOL_NAMES: Final = frozenset(tool.name for tool in REFERENCE_TOOLS)


def own_tools(agent: Agent | None) -> dict[str, Tool[Any]]:
    """Returns the file tools that the agent's `allowed_tools` and `exclude_tools` leave."""
    allowed, excluded = (agent.backend.allowed_tools, agent.backend.exclude_tools) if agent else ((), ())
    return {tool.name: tool for tool in REFERENCE_TOOLS if is_served(tool.name, allowed, excluded)}


def own_listing() -> ServerListing:
    """Returns all file tools as a server would list them; all agents of a workspace share the tool files."""
    return ServerListing(OWN_SERVER, tuple(_tool_schema(tool) for tool in REFERENCE_TOOLS), __version__)


def _tool_schema(tool: Tool[Any]) -> ToolSchema:
    hints = {"readOnlyHint": tool.read_only, "destructiveHint": tool.destructive, "idempotentHint": tool.idempotent}
    return ToolSchema(tool.name, tool.description, tool.input_schema, tool.output, hints)


def package_own_tools(runtime: str) -> None:
    """Writes the tool files that ship with the runtime below its folder. `make tool-files` calls it."""
    listing = own_listing()
    own = compile_own_tools(listing.tools, listing.version)
    folder = os.path.join(runtime, "own_packages", SERVERS, own.folder)
    os.makedirs(folder, exist_ok=True)
    for name in set(os.listdir(folder)) - set(own.files) - {"__pycache__"}:
        os.unlink(os.path.join(folder, name))
    for name, text in own.files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
