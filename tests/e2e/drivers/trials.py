"""Runs of real CLIs against scripted models, many side by side, each kept with all that was seen of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.drivers.scripted import processes_of_run
from tests.e2e.drivers.clients import CLIENTS, CLIS, KEY
from tests.e2e.drivers.decoys import Decoys
from tests.e2e.drivers.island import Island
from tests.e2e.scripted import ScriptedModel
from toolyard.app.toolsets import Toolset
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers import Finished, Message, drive
from toolyard.drivers.mcp_host import Host
from toolyard.drivers.orphan_cleanup import RUN_VARIABLE
from toolyard.drivers.run import CliRun
from toolyard.testing.mock_model import Step

SIDE_BY_SIDE = 6
"""Runs at a time. Much of one is waiting: for the model, for a deadline, for the next attempt."""
_SLACK_SECONDS = 45.0
"""What a busy machine may add to the deadline of a run."""
_BATCH_SECONDS = 460.0
_SOON = 0.02
_TRIES = 100


@dataclass
class Trial:
    """One run."""

    cli: str
    base: pathlib.Path
    model: ScriptedModel
    host: Host | None
    run: CliRun = field(init=False)
    messages: list[Message] = field(default_factory=list)
    folder: str = ""
    """The run's own, seen in the environment of its processes."""
    token: str = ""
    in_files: list[str] = field(default_factory=list)
    """Files of the run's folder that held the token or the key while the model was asked."""
    left: list[str] = field(default_factory=list)
    """What was there when it was over."""
    struck: float = 0.0
    """When the run was disturbed."""
    took: float = 0.0
    """Seconds from then to the last message."""
    calling: asyncio.Event = field(default_factory=asyncio.Event)
    questions: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> pathlib.Path:
        return self.base / "ws"

    @property
    def finished(self) -> Finished:
        """The one and last message of its kind."""
        ends = [message for message in self.messages if isinstance(message, Finished)]
        assert ends == self.messages[-1:], self.messages
        return ends[0]

    @property
    def client(self):
        return CLIENTS[self.cli]

    def told(self, kind: type) -> list[Any]:
        return [message for message in self.messages if isinstance(message, kind)]

    def look(self) -> None:
        """Look for the run's folder, and for secrets in it."""
        found = [_variables(pid) for pid in processes_of_run(self.run.id)]
        for variables in found:
            self.folder = variables.get("HOME", "")
            self.token = variables.get("TOOLYARD_RUN_TOKEN", "")
        secrets = [secret.encode() for secret in (self.token, KEY) if secret]
        for path in pathlib.Path(self.folder).rglob("*") if self.folder else ():
            with contextlib.suppress(OSError):
                if (
                    path.is_file()
                    and not path.is_symlink()
                    and any(secret in path.read_bytes() for secret in secrets if secret)
                ):
                    self.in_files.append(str(path.relative_to(self.folder)))

    def program(self) -> int:
        """The pid of the CLI, which is the keeper's child; 0 where it is not there."""
        found = processes_of_run(self.run.id)
        return next((pid for pid in found if _parent(pid) in found and _parent(_parent(pid)) not in found), 0)

    def strike(self, number: int) -> None:
        """Send the CLI a signal."""
        pid, tries = self.program(), _TRIES
        while not pid and tries:  # a process that is just becoming another program shows no environment
            time.sleep(_SOON)
            pid, tries = self.program(), tries - 1
        assert pid > 1, "the CLI is not there"
        self.struck = time.monotonic()
        os.kill(pid, number)


@dataclass(frozen=True, eq=False)
class Scenario:
    steps: tuple[Step, ...] = ()
    seconds: float = 240.0
    """The deadline of the run."""
    mode: PermissionMode | None = None
    names_model: bool = True
    tools: Toolset = Toolset.CLAUDE
    clis: tuple[str, ...] = CLIS
    before: Callable[[Trial, int], None] | None = None
    """What happens before a turn is answered."""
    beside: Callable[[Trial], Awaitable[None]] | None = None
    """What happens beside the run."""
    ask: Callable[[Trial], Awaitable[bool]] | None = None
    shares_host: bool = False
    has_host: bool = False
    """A host of its own, which is in `trial.host`."""
    wrapped: str = ""
    """Commands of a shell that come before the CLI."""


class Trials:
    """All of them, run batch by batch when the first of a batch is asked for."""

    def __init__(self, base: pathlib.Path, island: Island, path: str, clis: Iterable[str]) -> None:
        self.island = island
        self.base = base
        self.path = path
        self.temporary, self.home = base / "tmp", base / "home"
        for folder in (self.temporary, self.home):
            folder.mkdir()
        self.decoys = Decoys(base / "marks")
        self.decoys.put(self.home)
        self.decoys.put(self.temporary)
        self.clis = set(clis)
        self._ended: dict[tuple[int, str], Trial | BaseException] = {}

    def of(self, batch: tuple[Scenario, ...], scenario: Scenario, cli: str) -> Trial:
        """A run that is over."""
        if (id(scenario), cli) not in self._ended:
            with pytest.MonkeyPatch.context() as patched:
                patched.setenv("XDG_STATE_HOME", str(self.temporary))
                self.island.run(self._all(batch), _BATCH_SECONDS)
            left = list(self.temporary.rglob("toolyard-drive-*"))
            assert not left, "runs left their folders"
        ended = self._ended[id(scenario), cli]
        if isinstance(ended, BaseException):
            raise ended
        return ended

    async def _all(self, batch: tuple[Scenario, ...]) -> None:
        room = asyncio.Semaphore(SIDE_BY_SIDE)
        with contextlib.ExitStack() as owned:
            host = owned.enter_context(Host()) if any(each.shares_host for each in batch) else None

            async def one(scenario: Scenario, cli: str) -> None:
                async with room:
                    try:
                        self._ended[id(scenario), cli] = await self._one(scenario, cli, host)
                    except Exception as error:  # noqa: BLE001 - told by the test that wants this one
                        self._ended[id(scenario), cli] = error

            pairs = [(scenario, cli) for scenario in batch for cli in scenario.clis if cli in self.clis]
            await asyncio.gather(*(one(*pair) for pair in pairs))

    async def _one(self, scenario: Scenario, cli: str, shared: Host | None) -> Trial:
        base = pathlib.Path(tempfile.mkdtemp(prefix=f"{cli}-", dir=self.base))
        (base / "ws").mkdir()
        self.decoys.put(base / "ws")
        client = CLIENTS[cli]
        model = ScriptedModel(scenario.steps, client.prefix)
        with contextlib.ExitStack() as owned:
            url = owned.enter_context(model.serving())
            host = owned.enter_context(Host()) if scenario.has_host else shared if scenario.shares_host else None
            trial = Trial(cli, base, model, host)
            trial.run = self._driven(scenario, trial, url)
            model.before = lambda turn: _before(scenario, trial, turn)
            async with asyncio.timeout(scenario.seconds + _SLACK_SECONDS):
                await _listened(scenario, trial)
        if trial.struck:
            trial.took = time.monotonic() - trial.struck
        trial.left = [f"process {pid}" for pid in processes_of_run(trial.run.id)]
        trial.left += [trial.folder] if trial.folder and os.path.exists(trial.folder) else []
        return trial

    def _driven(self, scenario: Scenario, trial: Trial, url: str) -> CliRun:
        client = trial.client

        async def ask(_action: object, decision: Any) -> bool:
            trial.questions.append(decision.reason)
            trial.calling.set()
            assert scenario.ask is not None
            return await scenario.ask(trial)

        return drive(
            trial.cli,
            f"go, {trial.cli}",
            workspace=str(trial.workspace),
            host=trial.host,
            model=client.model if scenario.names_model else "",
            timeout=scenario.seconds,
            mode=scenario.mode,
            tools=scenario.tools,
            state=str(trial.base / "state"),
            ask=ask if scenario.ask else None,
            program=self._wrapped(scenario, trial),
            variables=self.variables(trial.cli, url),
        )

    def variables(self, cli: str, url: str) -> dict[str, str]:
        """The user's. Those that name settings name decoys."""
        home = str(self.home)
        return {
            "PATH": self.path,
            "HOME": home,
            "CLAUDE_CONFIG_DIR": f"{home}/.claude",
            "CODEX_HOME": f"{home}/.codex",
            "GEMINI_CLI_HOME": home,
            "QWEN_HOME": f"{home}/.qwen",
            "OPENCODE_CONFIG": f"{home}/opencode.json",
            "XDG_CONFIG_HOME": f"{home}/.config",
            **CLIENTS[cli].variables(url),
        }

    def _wrapped(self, scenario: Scenario, trial: Trial) -> str:
        if not scenario.wrapped:
            return ""
        wrapper = trial.base / "wrapped"
        wrapper.write_text(f'#!/bin/sh\n{scenario.wrapped}\nexec {trial.cli} "$@"\n')
        wrapper.chmod(0o700)
        return str(wrapper)


async def _listened(scenario: Scenario, trial: Trial) -> None:
    async with asyncio.TaskGroup() as group:
        beside = group.create_task(scenario.beside(trial)) if scenario.beside else None
        async for message in trial.run:
            trial.messages.append(message)
        if beside is not None:
            beside.cancel()


def _before(scenario: Scenario, trial: Trial, turn: int) -> None:
    trial.look()
    if scenario.before is not None:
        scenario.before(trial, turn)


async def until(is_so: Callable[[], object]) -> None:
    """Wait for what happens in another process."""
    while not is_so():
        await asyncio.sleep(_SOON)


def processes_with(word: str) -> list[int]:
    """Processes that have the word among theirs, or in their environment."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            seen = b"".join(pathlib.Path(f"/proc/{name}/{each}").read_bytes() for each in ("cmdline", "environ"))
            if word.encode() in seen and int(name) != os.getpid():
                found.append(int(name))
    return found


def _parent(pid: int) -> int:
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _variables(pid: int) -> dict[str, str]:
    try:
        raw = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return {}
    found = dict(each.split("=", 1) for each in raw.split("\0") if "=" in each)
    return found if RUN_VARIABLE in found else {}
