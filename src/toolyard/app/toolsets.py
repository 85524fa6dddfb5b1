"""The named sets of tools that a client can be served (`--tools`). Each set is imported when it is first needed."""

from __future__ import annotations

import re
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ValidationError
from toolyard.dispatch.tool import Tool


class Toolset(StrEnum):
    """The values of `--tools`."""

    CLAUDE = "claude"
    REFERENCE = "reference"
    CODE = "code"
    MINIMAL = "minimal"
    WORKSPACE = "workspace"
    ALL = "all"


Toolsets = Toolset | tuple[Toolset, ...]
"""One set, or several that are served together."""

_ALIASES = {"execute_bash": "Bash"}  # one tool with two names: excluding either excludes both
_UPSTREAM_PATTERN = re.compile(r"[./]|^mcp__")  # matches patterns for upstream tools, which do not apply to our own
_WITH_CODE_MODE = frozenset({Toolset.CODE, Toolset.MINIMAL, Toolset.ALL})


def parse_toolsets(text: str) -> Toolsets:
    """Parses `code`, or several sets separated by commas: `code,workspace`. Raises ValidationError."""
    names = [name.strip() for name in text.split(",")]
    known = [each.value for each in Toolset]
    for name in names:
        if name not in known:
            raise ValidationError.of("tools", f"{name!r} is not a set of tools", hint=did_you_mean(name, known))
    found = tuple(dict.fromkeys(Toolset(name) for name in names))
    return found[0] if len(found) == 1 else found


def sets_of(toolsets: Toolsets) -> tuple[Toolset, ...]:
    """Returns the sets as a tuple."""
    return (toolsets,) if isinstance(toolsets, Toolset) else toolsets


def has_code_mode(toolsets: Toolsets) -> bool:
    """Whether one of the sets is for agents that call upstream tools from code."""
    return not _WITH_CODE_MODE.isdisjoint(sets_of(toolsets))


def is_served(name: str, allowed: tuple[str, ...], excluded: tuple[str, ...]) -> bool:
    """Whether an agent's `allowed_tools` and `exclude_tools` leave one of our tools."""
    own = [pattern for pattern in allowed if not _UPSTREAM_PATTERN.search(pattern)]
    if own and not any(fnmatchcase(name, pattern) for pattern in own):
        return False
    spellings = (name, _ALIASES.get(name, name))
    return not any(fnmatchcase(spelling, pattern) for spelling in spellings for pattern in excluded)


def tools_of(toolsets: Toolsets) -> dict[str, Tool[Any]]:
    """Returns the tools of the sets by name."""
    tools: list[Tool[Any]] = []
    for toolset in sets_of(toolsets):
        tools += _tools_in_set(toolset)
    return {tool.name: tool for tool in tools}


def _tools_in_set(toolset: Toolset) -> list[Tool[Any]]:
    tools: list[Tool[Any]] = []
    if toolset in {Toolset.CLAUDE, Toolset.ALL}:
        from toolyard.tools.claude_toolset import CLAUDE_TOOLS

        tools += CLAUDE_TOOLS
    if toolset in {Toolset.REFERENCE, Toolset.ALL}:
        from toolyard.tools.reference.toolset import REFERENCE_TOOLS

        tools += REFERENCE_TOOLS
    if toolset in {Toolset.CODE, Toolset.ALL}:
        from toolyard.tools.code_toolset import CODE_TOOLS

        tools += CODE_TOOLS
    if toolset is Toolset.MINIMAL:
        from toolyard.tools.code_toolset import MINIMAL_TOOLS

        tools += MINIMAL_TOOLS
    if toolset in {Toolset.WORKSPACE, Toolset.ALL}:
        from toolyard.tools.memory import MEMORY_TOOLS
        from toolyard.tools.shared_files import SHARING_TOOLS
        from toolyard.tools.snapshots import SNAPSHOT_TOOLS

        tools += [*SNAPSHOT_TOOLS, *SHARING_TOOLS, *MEMORY_TOOLS]
    return tools
