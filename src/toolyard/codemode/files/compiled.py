"""What the compiler gives back. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompiledTool:
    """Where a tool's file is, and the two lines that search shows of it."""

    name: str
    module: str
    function: str
    path: str
    signature: str
    summary: str


@dataclass(frozen=True, slots=True)
class CompiledServer:
    """The files of one folder. The same listing gives the same bytes, always."""

    server: str
    folder: str
    files: Mapping[str, str]
    """Name in the folder -> text."""
    tools: tuple[CompiledTool, ...]
    version: str = ""
