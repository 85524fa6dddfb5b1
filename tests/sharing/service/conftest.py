"""A team of two: one configuration, a Yard for each agent, in one process."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call

CONFIG = """
toolyard:
  workspace: team
agents:
  - id: agent_a
  - id: agent_b
"""


class Team:
    def __init__(self, path, more=""):
        self.path = path
        self.root = path / "team"
        self.root.mkdir()
        (path / "toolyard.yaml").write_text(CONFIG + more)
        self.config = load_config(str(path / "toolyard.yaml"))
        self.opened = contextlib.ExitStack()

    def work(self, agent):
        return self.root / "agents" / agent / "workspace"

    def open(self, agent, toolset=Toolset.ALL, **options):
        self.work(agent).mkdir(parents=True, exist_ok=True)
        settings = Settings.from_environment({"HOME": str(self.path), "XDG_STATE_HOME": str(self.path / "state")})
        yard = Yard.open(
            YardOptions(
                str(self.work(agent)), self.config, settings=settings, agent=agent, toolset=toolset, **options
            )
        )
        self.opened.callback(yard.close)
        return Agent(yard)


class Agent:
    def __init__(self, yard):
        self.yard = yard

    @property
    def work(self):
        return Path(self.yard.home.workspace)

    async def call(self, tool, **arguments):
        return await self.yard.dispatch(
            Call(tool, arguments, "test", self.yard.agent, f"session of {self.yard.agent}")
        )

    async def write(self, path, text):
        return await self.call("Write", file_path=path, content=text)

    async def read(self, path):
        return (await self.call("Read", file_path=path)).structured["content"]

    async def share(self):
        """Take a snapshot of what is there now, and wait until it is published."""

        def published():
            self.yard.snapshots.create()
            assert self.yard.sharing.flush(30)

        await asyncio.to_thread(published)

    async def merge(self, peer, *paths, **options):
        return (await self.call("shared_merge", peer=peer, paths=list(paths), **options)).structured


@pytest.fixture
def team(tmp_path):
    made = Team(tmp_path.resolve())
    with made.opened:
        yield made


@pytest.fixture
def a(team):
    return team.open("agent_a")


@pytest.fixture
def b(team):
    return team.open("agent_b")


def names(entries):
    return [entry["path"] for entry in entries]


async def start(a, b, **texts):
    """Both have the same files: b wrote them, a merged them."""
    for name, text in texts.items():
        await b.write(f"{name}.txt", text)
    await b.share()
    await a.merge("agent_b", "**")
