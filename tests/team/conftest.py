"""A team at work against scripted models: real SDKs, real tools, real files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.team.events import RunFinished, TeamEvent
from toolyard.team.options import RunOptions
from toolyard.team.run import TeamRun
from toolyard.testing.mock_model import ModelServer, ScriptLike, by_model, serve_model

KEYS = {"GEMINI_API_KEY": "gemini-key", "OPENAI_API_KEY": "openai-key", "ANTHROPIC_API_KEY": "anthropic-key"}


@dataclass
class Team:
    """A configuration with one agent for each model name, and what was heard of its runs."""

    folder: Path
    server: ModelServer
    kinds: Sequence[str] = ("gemini", "openai", "claude")
    events: list[TeamEvent] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    backend: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> Settings:
        return Settings.from_environment(
            {
                "HOME": str(self.folder / "home"),
                "PATH": "/usr/bin:/bin",
                "GOOGLE_GEMINI_BASE_URL": self.server.gemini,
                "OPENAI_BASE_URL": self.server.openai,
                "ANTHROPIC_BASE_URL": self.server.anthropic,
                **KEYS,
            }
        )

    def write(self, agents: Sequence[str]) -> Path:
        backends = [
            {
                "type": self.kinds[number % len(self.kinds)],
                "model": agent,
                "permission_mode": "strict",
                **self.backend,
            }
            for number, agent in enumerate(agents)
        ]
        listed = [{"id": agent, "backend": backend} for agent, backend in zip(agents, backends, strict=True)]
        path = self.folder / "team.yaml"
        path.write_text(yaml.safe_dump({"agents": listed, **self.more}))
        return path

    def made(self, agents: Sequence[str], task: str = "Do it.", **options: Any) -> TeamRun:
        config = load_config(str(self.write(agents)), env={})
        given = RunOptions(config, task, settings=self.settings(), patience=2.0)
        return TeamRun(replace(given, **{**self.options, **options}), self.events.append)

    def run(self, agents: Sequence[str], task: str = "Do it.", **options: Any) -> RunFinished:
        return asyncio.run(self.made(agents, task, **options).go())

    def heard(self, kind: type[Any], agent: str = "") -> list[Any]:
        return [each for each in self.events if isinstance(each, kind) and agent in {"", each.agent}]

    def workspace(self, agent: str) -> Path:
        return self.folder / "toolyard_workspace" / "agents" / agent / "workspace"


@pytest.fixture
def team_of(tmp_path: Path) -> Iterator[Callable[..., Team]]:
    """`team_of(a=[Say("one")], b=...)`: scripts by agent; the model of an agent has its name."""
    from contextlib import ExitStack

    with ExitStack() as servers:

        def made(**scripts: ScriptLike) -> Team:
            return Team(tmp_path, servers.enter_context(serve_model(by_model(scripts))))

        yield made
