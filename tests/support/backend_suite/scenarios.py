"""What every backend is tried with: an agent at work in each permission mode, and a team that shares its files.

    ran = await run_scenario(backend, STRICT, "/tmp/place", {"PATH": ..., "HOME": ...})
    assert ran.shown[0] ...

A run is a real one, of `toolyard.team`, with a configuration in a file, against a scripted model on the loopback.
Which backend it is makes no difference here but for the names that its model has for our tools. What has to be true
of each run is said in `backends_suite`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.team.events import RunFinished, TeamEvent
from toolyard.team.options import RunOptions
from toolyard.team.run import TeamRun
from toolyard.testing.mock_model import DONE, Call, Request, Say, Step, serve_model
from toolyard.testing.mock_model.requests import ToolOutput, UserMessage

WORKER: Final = "worker"
PEER: Final = "peer"
FOLDER: Final = "work"
"""`cwd` of the worker, beside the configuration."""
KEPT: Final = ("kept.txt", "kept from before\n")
OUTSIDE: Final = "outside.txt"
"""Beside the configuration, and so outside of `cwd`."""
TASK: Final = "Do what there is to do."
SHARED: Final = "<shared>"
"""In arguments: the folder of the other agent's files, as the prompt of the round spells it."""
_LATER: Final = "VOTE:"
"""In the prompt of every round after the first."""
_ROUTED: Final = Say(json.dumps({"complexity_reasoning": "it is short", "complexity_score": 10}))
"""What Gemini CLI asks a small model for beside its conversation."""
_THEIR_FILES = re.compile(r"Answer of `\w+`, its files are in `(.+?)/?`:")
_PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Backend:
    kind: str
    """`backend.type`."""
    model: str
    prefix: str = ""
    """What its model sees before the names of our tools."""
    own_tools: frozenset[str] = frozenset()
    """What its model sees beside our tools."""
    refused: str = "plan mode changes nothing"
    """What its model is shown that writes in plan mode: most CLIs do not even offer it."""


@dataclass(frozen=True, eq=False, slots=True)
class Scenario:
    rounds: tuple[tuple[Step, ...], ...]
    """What the worker's model does in each round."""
    mode: str = "strict"
    has_folder: bool = False
    """Whether `cwd` is there before the run, with `KEPT` in it."""
    peer: tuple[tuple[Step, ...], ...] = ()
    """What the model of a second agent does, on the Gemini API; there is none where it is empty."""


STRICT = Scenario(
    (
        (
            Call("Write", {"file_path": "a.txt", "content": "one\ntwo\n"}),
            Call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"}),
            Call("MultiEdit", {"file_path": "a.txt", "edits": [{"old_string": "two", "new_string": "2"}]}),
            Call("Bash", {"command": "mkdir -p deep && cp a.txt deep/b.txt && pwd"}),
            Call("Read", {"file_path": "deep/b.txt"}),
            Call("Grep", {"pattern": "2", "output_mode": "files_with_matches"}),
            Call("Glob", {"pattern": "**/*.txt"}),
            Call("LS", {"path": "."}),
            Call("Read", {"file_path": "/etc/passwd"}),
            Call("Write", {"file_path": f"../{OUTSIDE}", "content": "x"}),
            Say("All is well."),
        ),
    )
)
PLAN = Scenario(
    (
        (
            Call("Read", {"file_path": KEPT[0]}),
            Call("Write", {"file_path": "a.txt", "content": "x"}),
            Say("This is the plan."),
        ),
    ),
    mode="plan",
    has_folder=True,
)
ACCEPT_EDITS = Scenario(
    (
        (
            Call("Edit", {"file_path": KEPT[0], "old_string": "from before", "new_string": "and changed"}),
            Call("Write", {"file_path": "a.txt", "content": "x"}),
            Call("Write", {"file_path": f"../{OUTSIDE}", "content": "x"}),
            Say("It is written."),
        ),
    ),
    mode="acceptEdits",
    has_folder=True,
)
BYPASS = Scenario(
    (
        (
            Call("Write", {"file_path": f"../{OUTSIDE}", "content": "wanted there\n"}),
            Call("Read", {"file_path": f"../{OUTSIDE}"}),
            Call("Bash", {"command": f"cat ../{OUTSIDE}"}),
            Say("It is there."),
        ),
    ),
    mode="bypassPermissions",
)
TEAM = Scenario(
    (
        (Call("Write", {"file_path": "mine.txt", "content": "made by the worker\n"}), Say("See mine.txt.")),
        (Call("Read", {"file_path": f"{SHARED}/theirs.txt"}), Say(f"I read it.\n\nVOTE: {PEER}\nIt is good.")),
    ),
    peer=(
        (Call("Write", {"file_path": "theirs.txt", "content": "made by the peer\n"}), Say("See theirs.txt.")),
        (Call("Read", {"file_path": f"{SHARED}/mine.txt"}), Say(f"VOTE: {PEER}\nMine is as good.")),
    ),
)
SCENARIOS: Final = (STRICT, PLAN, ACCEPT_EDITS, BYPASS, TEAM)


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that is over, with what was seen of it."""

    backend: Backend
    base: str
    finished: RunFinished
    events: Sequence[TeamEvent]
    requests: Sequence[Request]

    def path(self, *parts: str) -> str:
        """Beside the configuration."""
        return os.path.join(self.base, *parts)

    def text(self, *parts: str) -> str:
        """Of a file of the worker's."""
        with open(self.path(FOLDER, *parts), encoding="utf-8") as file:
            return file.read()

    def heard(self, kind: type[Any], agent: str = WORKER) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind) and event.agent == agent]

    def shown(self, number: int = 1, model: str = "") -> list[str]:
        """What the model of an agent was shown of its calls in a round."""
        asked = [
            request
            for request in self.requests
            if request.model == (model or self.backend.model) and _round(request) == number
        ]
        return max((_results(request) for request in asked), key=len, default=list[str]())

    @property
    def offered(self) -> set[str]:
        """The tools that the worker's model saw, under our names."""
        prefix = self.backend.prefix
        asked = [request for request in self.requests if request.model == self.backend.model and request.tools]
        seen = set(max(asked, key=lambda each: len(each.results)).tools)
        return {name.removeprefix(prefix) for name in seen - self.backend.own_tools}


async def run_scenario(backend: Backend, scenario: Scenario, base: str, variables: Mapping[str, str]) -> Ran:
    """Run it in the folder `base`, which is empty. `variables` are the user's, without those of the model."""
    events: list[TeamEvent] = []
    with serve_model(Script(backend, scenario)) as server:
        known = {**variables, **server.environment}
        options = RunOptions(
            load_config(write_config(backend, scenario, base), env={}),
            TASK,
            settings=Settings.from_environment(known),
            variables=known,
            patience=_PATIENCE_SECONDS,
        )
        finished = await TeamRun(options, events.append).go()
        return Ran(backend, base, finished, events, server.requests)


def write_config(backend: Backend, scenario: Scenario, base: str) -> str:
    """The configuration of a scenario, and the folder that is there before it; the path."""
    worker = {"type": backend.kind, "model": backend.model, "cwd": FOLDER, "permission_mode": scenario.mode}
    agents: list[Any] = [{"id": WORKER, "backend": worker}]
    if scenario.peer:
        agents.append({"id": PEER, "backend": {"type": "gemini", "model": PEER, "permission_mode": "strict"}})
    if scenario.has_folder:
        os.mkdir(os.path.join(base, FOLDER))
        with open(os.path.join(base, FOLDER, KEPT[0]), "w", encoding="utf-8") as file:
            file.write(KEPT[1])
    path = os.path.join(base, "team.yaml")
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump({"agents": agents}, file)
    return path


@dataclass(frozen=True, slots=True)
class Script:
    """Plays the rounds to the conversations that have our tools. A CLI has others beside them."""

    backend: Backend
    scenario: Scenario
    prefixes: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", {self.backend.model: self.backend.prefix, PEER: ""})

    def __call__(self, request: Request) -> Step:
        prefix = self.prefixes.get(request.model)
        if request.body.get("generationConfig", {}).get("responseMimeType") == "application/json":
            return _ROUTED
        if prefix is None or not any(name.startswith(prefix) for name in request.tools):
            return DONE
        rounds = self.scenario.peer if request.model == PEER else self.scenario.rounds
        steps, turn = rounds[_round(request) - 1], len(_results(request))
        step = steps[turn] if turn < len(steps) else DONE
        if not isinstance(step, Call):
            return step
        found = _THEIR_FILES.search("\n".join(request.user_texts))
        arguments = json.dumps(step.arguments).replace(SHARED, found[1] if found else SHARED)
        return Call(prefix + step.tool, json.loads(arguments))


def _round(request: Request) -> int:
    """A backend that keeps its conversation and one that begins anew in each round are both told by their prompt."""
    return 2 if any(_LATER in text for text in request.user_texts) else 1


def _results(request: Request) -> list[str]:
    """What the model was shown in the round of the request."""
    entries = request.conversation.entries
    begins = next((at for at, each in enumerate(entries) if isinstance(each, UserMessage) and _LATER in each.text), 0)
    return [each.text for each in entries[begins:] if isinstance(each, ToolOutput)]
