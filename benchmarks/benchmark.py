"""What every measure is handed: sizes, a scratch folder, and somebody to tell how far it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from toolyard.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. Few rounds give a quick look, many a figure to quote."""

    rounds: int
    tree_files: int
    calls: int
    starts: int
    loops: int
    servers: int = 100
    """How many are attached where many are."""
    universe: int | None = None
    """How many of the captured servers are used; all of them unless told."""
    turns: int = 30
    """Of each agent of a team, one after another."""
    agents: int = 100
    """Of a large team."""
    threads: int = 50
    """Of an assistant, whose turns come in between each other."""
    source_tokens: int = 1_000_000
    """Of the files of one request."""


FULL = Sizes(rounds=9, tree_files=20_000, calls=400, starts=9, loops=2_000)
QUICK = Sizes(rounds=3, tree_files=2_000, calls=100, starts=3, loops=500, turns=10, agents=20, threads=12)


@dataclass(frozen=True, slots=True)
class Bench:
    sizes: Sizes
    scratch: str
    settings: Settings
    say: Callable[[str], None]

    def folder(self, name: str) -> str:
        """A new folder of the scratch folder."""
        path = os.path.join(self.scratch, name)
        os.makedirs(path)
        return path

    def server(self, workspace: str) -> tuple[str, ...]:
        """The command that serves `workspace`, as a user would start it."""
        state = os.path.join(self.scratch, "state")
        return (sys.executable, "-m", "toolyard", "mcp", "--workspace", workspace, "--state", state)
