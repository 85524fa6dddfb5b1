"""The tool names that the last sync reported to the user, stored in the state folder.

A call may be the first to notice that a server has a new tool, or one less. The next sync reports it, by comparing
with what was reported before.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Collection, Mapping
from typing import cast

from toolyard.codemode.catalog import ChangeKind, ToolChange

FILE_NAME = "told.json"
_PRIVATE = 0o600

ToolNames = Mapping[str, Collection[str]]
"""Tool names by server, or by group of custom tools."""


def read_last_sync(state: str) -> ToolNames | None:
    """Returns the reported names, or None if there are none or they cannot be read."""
    try:
        with open(os.path.join(state, FILE_NAME), encoding="utf-8") as file:
            names: object = json.load(file)
    except (OSError, ValueError):
        return None
    return cast("ToolNames", names) if isinstance(names, dict) else None


def write_last_sync(state: str, names: ToolNames) -> None:
    """Stores the names for the next sync. A failure only causes repeated reports."""
    path = os.path.join(state, FILE_NAME)
    new = f"{path}.{secrets.token_hex(4)}"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump({server: list(tools) for server, tools in names.items()}, file)
        os.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)


def tool_differences(before: ToolNames, now: ToolNames) -> tuple[ToolChange, ...]:
    """Returns the tools that were added and removed, by server."""
    found: list[ToolChange] = []
    for server in dict.fromkeys((*now, *before)):
        had, has = dict.fromkeys(before.get(server, ())), dict.fromkeys(now.get(server, ()))
        found += [ToolChange(server, tool, ChangeKind.REMOVED) for tool in had if tool not in has]
        found += [ToolChange(server, tool, ChangeKind.ADDED) for tool in has if tool not in had]
    return tuple(found)
