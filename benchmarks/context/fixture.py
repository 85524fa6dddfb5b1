"""A team against a model that answers at once: what the measures of orchestration run.

A `ModelProgram` owns the model, a process of its own, so that its work is not measured here. A `Team` is a folder
with a configuration; its runs are whole runs, from the configuration to the report.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from benchmarks.lean_client import BenchFault
from toolyard.config.loader import load_config
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.closeable import Closeable
from toolyard.team.events import AgentFailed, AgentStarted, Answered, RoundStarted, RunFinished, TeamEvent, Used
from toolyard.team.options import RunOptions
from toolyard.team.paths import with_layout
from toolyard.team.run import TeamRun

BACKENDS: Mapping[str, str] = {"gemini": "gemini-2.5-flash", "openai": "gpt-4o", "claude": "claude-sonnet-4-5"}
"""In turn, one for each agent: what a turn costs differs by the provider's library."""
_KEY = "an-unchecked-key"
_CLOSE_SECONDS = 10
_SHOWN_FAULTS = 3
TASK = "Do what there is to do."

Step = Mapping[str, Any]


class ModelProgram(Closeable):
    """A model that takes these steps in every conversation, and then says `done`."""

    def __init__(self, folder: str, steps: Sequence[Step]) -> None:
        script = os.path.join(folder, "script.json")
        with open(script, "w", encoding="utf-8") as file:
            json.dump(list(steps), file)
        command = (sys.executable, "-m", "toolyard.testing.mock_model", "--script", script)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._address = cast("Any", self._process.stdout).readline().strip()
        if not self._address:
            self.close()
            raise BenchFault("The model's server did not start.")

    @property
    def access(self) -> Mapping[str, str]:
        """What tells the libraries where it is."""
        return {
            "GOOGLE_GEMINI_BASE_URL": self._address,
            "OPENAI_BASE_URL": f"{self._address}/v1",
            "ANTHROPIC_BASE_URL": self._address,
            "GEMINI_API_KEY": _KEY,
            "OPENAI_API_KEY": _KEY,
            "ANTHROPIC_API_KEY": _KEY,
        }

    def close(self) -> None:
        cast("Any", self._process.stdin).close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        cast("Any", self._process.stdout).close()


@dataclass
class Heard:
    """The events of a run, with the time of each."""

    began: float = 0.0
    processor: float = 0.0
    """Seconds of it, from the first agent's start to the last answer."""
    started: dict[str, float] = field(default_factory=dict[str, float])
    answered: dict[str, float] = field(default_factory=dict[str, float])
    turns: dict[str, int] = field(default_factory=dict[str, int])
    faults: list[str] = field(default_factory=list[str])
    events: list[TeamEvent] = field(default_factory=list[TeamEvent])
    _processor_began: float = 0.0

    def __call__(self, event: TeamEvent) -> None:
        now = time.perf_counter()
        self.events.append(event)
        match event:
            case RoundStarted():
                self.began, self._processor_began = now, time.process_time()
            case AgentStarted(agent=agent):
                self.started[agent] = now
            case Answered(agent=agent):
                self.answered[agent] = now
                self.processor = time.process_time() - self._processor_began
            case Used(agent=agent, turns=turns):
                self.turns[agent] = turns
            case AgentFailed(agent=agent, why=why):
                self.faults.append(f"{agent} failed: {why}")
            case _:
                pass

    @property
    def milliseconds_a_turn(self) -> float:
        """Of an agent, from the task to its answer, by the number of its turns."""
        spans = [(self.answered[agent] - self.started[agent]) / self.turns[agent] for agent in self.started]
        return sum(spans) / len(spans) * 1e3

    @property
    def processor_a_turn(self) -> float:
        """Milliseconds of this process."""
        return self.processor / sum(self.turns.values()) * 1e3


@dataclass(frozen=True, slots=True)
class Team:
    folder: str
    agents: tuple[str, ...]
    settings: Settings
    """With the keys and the address of the model."""

    @classmethod
    def of(
        cls,
        folder: str,
        size: int,
        settings: Settings,
        access: Mapping[str, str],
        servers: Sequence[Mapping[str, Any]] = (),
    ) -> Team:
        """`size` agents, each with files of its own, for one round. They may call every tool of `servers`."""
        names = tuple(f"a{number:03}" for number in range(size))
        kinds = [*BACKENDS.items()]
        listed = [
            {"id": name, "backend": {"type": kind, "model": model, "permission_mode": "strict"}}
            for name, (kind, model) in zip(names, (kinds[number % len(kinds)] for number in range(size)), strict=True)
        ]
        with open(os.path.join(folder, "team.yaml"), "w", encoding="utf-8") as file:
            config: dict[str, Any] = {"agents": listed, "orchestrator": {"limits": {"rounds": 1}}}
            if servers:
                config["toolyard"] = {"available_mcp_servers": list(servers)}
                config["permissions"] = {"allow": [f"mcp__{server['name']}__*" for server in servers]}
            json.dump(config, file)
        return cls(folder, names, replace(settings, model_access=access))

    @property
    def root(self) -> str:
        return os.path.join(self.folder, "toolyard_workspace")

    def workspace(self, agent: str) -> str:
        return os.path.join(self.root, "agents", agent, "workspace")

    def write(self, files: Mapping[str, str]) -> None:
        """These files, for every agent."""
        for agent in self.agents:
            os.makedirs(self.workspace(agent), exist_ok=True)
            for name, text in files.items():
                with open(os.path.join(self.workspace(agent), name), "w", encoding="utf-8") as file:
                    file.write(text)

    @property
    def _file(self) -> str:
        return os.path.join(self.folder, "team.yaml")

    @property
    def state(self) -> str:
        return os.path.join(self.folder, "state")

    @property
    def config(self) -> Config:
        """As its runs use it."""
        return with_layout(load_config(self._file))

    def made(self, hear: Heard) -> TeamRun:
        return TeamRun(RunOptions(load_config(self._file), TASK, self.settings, self.state, variables={}), hear)

    def run(self, hear: Heard) -> RunFinished:
        """To its end. Raises BenchFault where an agent has not answered."""
        finished = asyncio.run(self.made(hear).go())
        missing = set(self.agents) - hear.answered.keys()
        if missing:
            raise BenchFault(
                f"{len(missing)} of {len(self.agents)} agents did not answer. {' '.join(hear.faults[:3])}"
            )
        return finished
