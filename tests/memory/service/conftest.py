"""A team whose agents stand in folders of their own, opened as a surface opens it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.config.settings import Settings
from toolyard.core.calls import Call, Result
from toolyard.core.permission_modes import PermissionMode
from toolyard.files.roots import Root
from toolyard.memory import Memory

CONFIG = """
toolyard: {workspace: root}
agents:
  - {id: reader, memory: {allow_read_from: [other]}}
  - {id: writer, memory: {allow_write_to: [other]}}
  - {id: stranger}
  - {id: other}
"""
AGENTS = ("reader", "writer", "stranger", "other")


class Team:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "root"
        self.yards: list[Yard] = []
        self.handle: Root | None = None
        (base / "team.yaml").write_text(CONFIG)

    def open(self, agent: str, mode: PermissionMode | None = None) -> Yard:
        place = resolve_workspace(None, str(self.base / "team.yaml"), agent)
        home = str(self.base / "home")
        options = YardOptions(
            workspace=place.workspace,
            config=place.config,
            settings=Settings(home, f"{home}/state", f"{home}/temp", f"{home}/Documents"),
            mode=mode,
            agent=agent,
            toolset=Toolset.ALL,
        )
        self.yards.append(Yard.open(options))
        return self.yards[-1]

    def memory(self, agent: str) -> Memory:
        """As the host has it, whoever may see it."""
        if self.handle is None:
            self.handle = Root(str(self.root))
        return Memory(self.handle, agent)

    def file(self, agent: str, name: str = "core_memories.json") -> Path:
        return self.root / "agents" / agent / "memory" / name

    def close(self) -> None:
        for yard in self.yards:
            yard.close()
        if self.handle is not None:
            self.handle.close()


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """Everybody remembers something of the database."""
    made = Team(tmp_path.resolve())
    made.root.mkdir()
    for agent in AGENTS:
        made.memory(agent).remember(f"The database of {agent} is slow", topic="databases")
    yield made
    made.close()


async def use(yard: Yard, tool: str, /, **arguments: object) -> Result:
    return await yard.dispatch(Call(tool, arguments, "test", agent=yard.agent))
