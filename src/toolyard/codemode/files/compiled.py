"""The output of the tool file compiler. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompiledTool:
    """The location of a tool's file, and the two lines that search shows."""

    name: str
    module: str
    function: str
    path: str
    signature: str
    summary: str


@dataclass(frozen=True, slots=True)
class CompiledServer:
    """The files of one folder. The same listing always gives the same bytes."""

    server: str
    folder: str
    files: Mapping[str, str]
    """File name -> text."""
    tools: tuple[CompiledTool, ...]
    version: str = ""
