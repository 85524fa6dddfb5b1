"""The options that the commands of `toolyard memory` share, and the memories they work on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable

import click

from toolyard.cli.common.options import complete_commands
from toolyard.cli.common.workspace_group import workspace_command
from toolyard.cli.common.workspace_lookup import (
    WorkspaceData,
    WorkspaceOptions,
    require_agent,
    resolve_data_workspace,
)
from toolyard.config.settings import Settings
from toolyard.core.text import printable
from toolyard.memory.agent_memories import AgentMemories
from toolyard.workspace.agent_paths import resolve_agent_paths

INCOMPLETE = 1
SHORTEST_PREFIX = 4
"""Minimum length of an id prefix: a shorter one is more likely a typo."""
_LONGEST_LINE = 110


@click.group()
def memory() -> None:
    """List, search and change what agents remember."""


command = workspace_command(
    memory,
    who="The agent whose memory is meant; required if there are several.",
    state="The folder for the state of workspaces.",
)
"""Adds a command to the group."""


def open_memories(where: WorkspaceOptions, *, acts_as_agent: bool = False, adds: bool = False) -> AgentMemories:
    """Opens the memories of the chosen root; the caller closes them. With `acts_as_agent` one agent has to be
    named.
    """
    resolved = resolve_data_workspace(WorkspaceData.MEMORY, where, acts_as_agent=acts_as_agent, adds=adds)
    real = os.path.realpath(resolved.workspace)
    home = resolve_agent_paths(resolved.config, real, where.agent, Settings.from_environment(), where.state or "")
    require_agent(resolved.config, home, where.agent, adds=adds)
    return AgentMemories(home)


def one_line(text: str) -> str:
    """Returns a text shortened to one line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def echo_json(value: object) -> None:
    """Prints a value as JSON."""
    # json.dumps does not escape DEL, which terminals interpret.
    click.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def exit_if_incomplete(faults: Iterable[str], nothing: str = "") -> None:
    """Prints what could not be read, or that nothing was found, and exits with code 1; returns otherwise."""
    messages = [f"! {fault}" for fault in faults] or ([nothing] if nothing else [])
    for line in messages:
        click.echo(printable(complete_commands(line)), err=True)
    if messages:
        sys.exit(INCOMPLETE)
