"""What the commands of `toolyard memory` share: their options, and the memories they mean."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable

import click

from toolyard.cli.common.options import runnable
from toolyard.cli.common.workspace_group import placed
from toolyard.cli.common.workspace_lookup import Kept, Where, find_kept, require_agent
from toolyard.config.settings import Settings
from toolyard.core.text import printable
from toolyard.memory.agent_memories import Memories
from toolyard.workspace.agent_paths import home_of

INCOMPLETE = 1
SHORTEST_PREFIX = 4
"""Of an id: fewer characters are more likely a slip."""
_LONGEST_LINE = 110


@click.group()
def memory() -> None:
    """See, search and correct what agents remember."""


command = placed(
    memory,
    who="Whose memory; has to be said where there are several agents.",
    state="Where the state of workspaces is kept.",
)
"""A command of the group."""


def open_memories(where: Where, *, acts: bool = False, adds: bool = False) -> Memories:
    """The memories of the root that is meant. A command that `acts` has to know as whom. The caller closes them."""
    place = find_kept(Kept.MEMORY, where, acts=acts, adds=adds)
    real = os.path.realpath(place.workspace)
    home = home_of(place.config, real, where.agent, Settings.from_environment(), where.state or "")
    require_agent(place.config, home, where.agent, adds=adds)
    return Memories(home)


def one_line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def echo_json(value: object) -> None:
    # JSON leaves DEL as it is; the terminal would act on it.
    click.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def end(faults: Iterable[str], nothing: str = "") -> None:
    """Say what could not be read, or that there is nothing; either is exit code 1."""
    said = [f"! {fault}" for fault in faults] or ([nothing] if nothing else [])
    for line in said:
        click.echo(printable(runnable(line)), err=True)
    if said:
        sys.exit(INCOMPLETE)
