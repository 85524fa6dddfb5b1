"""What the last sync told the user of: the names of all tools, in the state folder.

A call may be the first to notice that a server has another tool, or one less. Whoever syncs next is told, and that
takes knowing what was told before.
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
"""By server, or by group of custom tools."""


def read_last_sync(state: str) -> ToolNames | None:
    """None where nothing was told yet, or it cannot be read: then there is nothing to compare with."""
    try:
        with open(os.path.join(state, FILE_NAME), encoding="utf-8") as file:
            told: object = json.load(file)
    except (OSError, ValueError):
        return None
    return cast("ToolNames", told) if isinstance(told, dict) else None


def write_last_sync(state: str, names: ToolNames) -> None:
    """Keep it for the next sync. Not being able to costs a repetition at most."""
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
    """The tools that came and went in between, server by server."""
    found: list[ToolChange] = []
    for server in dict.fromkeys((*now, *before)):
        had, has = dict.fromkeys(before.get(server, ())), dict.fromkeys(now.get(server, ()))
        found += [ToolChange(server, tool, ChangeKind.REMOVED) for tool in had if tool not in has]
        found += [ToolChange(server, tool, ChangeKind.ADDED) for tool in has if tool not in had]
    return tuple(found)
