"""What the commands of `toolyard memory` share: their options, and the memories they mean."""

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
"""Of an id: fewer characters are more likely a slip."""
_LONGEST_LINE = 110


@click.group()
def memory() -> None:
    """See, search and correct what agents remember."""


command = workspace_command(
    memory,
    who="Whose memory; has to be said where there are several agents.",
    state="Where the state of workspaces is kept.",
)
"""A command of the group."""


def open_memories(where: WorkspaceOptions, *, acts_as_agent: bool = False, adds: bool = False) -> AgentMemories:
    """The memories of the root that is meant. A command that `acts_as_agent` has to know as whom. The caller closes them."""
    place = resolve_data_workspace(WorkspaceData.MEMORY, where, acts_as_agent=acts_as_agent, adds=adds)
    real = os.path.realpath(place.workspace)
    home = resolve_agent_paths(place.config, real, where.agent, Settings.from_environment(), where.state or "")
    require_agent(place.config, home, where.agent, adds=adds)
    return AgentMemories(home)


def one_line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def echo_json(value: object) -> None:
    # JSON leaves DEL as it is; the terminal would act on it.
    click.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def exit_if_incomplete(faults: Iterable[str], nothing: str = "") -> None:
    """Say what could not be read, or that there is nothing; either is exit code 1."""
    said = [f"! {fault}" for fault in faults] or ([nothing] if nothing else [])
    for line in said:
        click.echo(printable(complete_commands(line)), err=True)
    if said:
        sys.exit(INCOMPLETE)
