"""The named sets of tools a client can be served (`--tools`). Each set is imported only when it is asked for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from toolyard.app.tool import Tool


class Toolset(StrEnum):
    CLAUDE = "claude"
    REFERENCE = "reference"
    CODE = "code"
    MINIMAL = "minimal"
    ALL = "all"


_WITH_CODE_MODE = frozenset({Toolset.CODE, Toolset.MINIMAL, Toolset.ALL})


def has_code_mode(toolset: Toolset) -> bool:
    """Whether the set is for agents that call upstream tools from code."""
    return toolset in _WITH_CODE_MODE


def tools_of(toolset: Toolset) -> dict[str, Tool[Any]]:
    tools: list[Tool[Any]] = []
    if toolset in {Toolset.CLAUDE, Toolset.ALL}:
        from toolyard.app.tools.claude import CLAUDE_TOOLS

        tools += CLAUDE_TOOLS
    if toolset in {Toolset.REFERENCE, Toolset.ALL}:
        from toolyard.app.tools.reference import REFERENCE_TOOLS

        tools += REFERENCE_TOOLS
    if toolset in {Toolset.CODE, Toolset.ALL}:
        from toolyard.app.tools.code import CODE_TOOLS

        tools += CODE_TOOLS
    if toolset is Toolset.MINIMAL:
        from toolyard.app.tools.code import MINIMAL_TOOLS

        tools += MINIMAL_TOOLS
    return {tool.name: tool for tool in tools}
