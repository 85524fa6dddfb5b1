"""A dispatch to try things on: tools made of plain functions, and an audit log in memory that can be made to fail."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from toolyard.codemode.deps import CodeModeDeps
from toolyard.codemode.service import CodeMode
from toolyard.config.models import CodeExecution, Config
from toolyard.config.settings import Settings
from toolyard.config.snapshots import Snapshots
from toolyard.core.actions import Kind
from toolyard.core.calls import Call, Result, Text
from toolyard.core.errors import SystemFault
from toolyard.core.events import Event
from toolyard.core.limits import DEFAULT_LIMITS, Limits
from toolyard.core.permission_modes import PermissionMode
from toolyard.core.upstream import ServerListing
from toolyard.dispatch.call_context import CallContext
from toolyard.dispatch.dispatcher import CallDispatcher
from toolyard.dispatch.read_tracker import ReadTracker
from toolyard.dispatch.services import WorkspaceServices
from toolyard.dispatch.tool import Arguments, Tool, output_schema
from toolyard.files.mounts import Mounts
from toolyard.policy.policy import Policy
from toolyard.sandbox.manager import SandboxManager
from toolyard.sandbox.proxy.endpoint import ignore_connection
from toolyard.sandbox.selection import choose_sandbox
from toolyard.snapshots.service.auto_snapshots import AutoSnapshots, SnapshotLocation
from toolyard.workspace.agent_paths import resolve_agent_paths
from toolyard.workspace.file_tool_detector import FilesystemToolDetector

_LONGEST_WAIT = 10.0
_TURN = 0.005


class ProbeArguments(Arguments):
    paths: tuple[str, ...] | list[str] = ()


ProbeFunction = Callable[[ProbeArguments, CallContext], Result | None]


@dataclass(slots=True)
class MemoryLog:
    """An audit log that keeps its events, and refuses them while `broken`."""

    events: list[Event] = field(default_factory=list[Event])
    broken: bool = False

    def append(self, event: Event) -> int:
        if self.broken:
            raise SystemFault("The log cannot be written.", hint="Free some space.")
        self.events.append(event)
        return len(self.events)

    @property
    def outcomes(self) -> list[str]:
        return [event.outcome.value for event in self.events]


@dataclass(slots=True)
class Bench:
    """One workspace and its log; each `dispatch` runs the tool `Probe`, which is the function it is given."""

    workspace: str
    mounts: Mounts
    log: MemoryLog = field(default_factory=MemoryLog)
    ran: list[ProbeArguments] = field(default_factory=list[ProbeArguments])

    def resources(
        self, mode: PermissionMode = PermissionMode.STRICT, limits: Limits = DEFAULT_LIMITS
    ) -> WorkspaceServices:
        policy = Policy(mode, self.workspace)
        sandboxes = SandboxManager(
            policy, CodeExecution(), "/nowhere", lambda: choose_sandbox(CodeExecution()), ignore_connection
        )
        state = os.path.join(os.path.dirname(self.workspace), "probe-state")
        settings = Settings(state, state, state, state)
        config = Config()
        paths = resolve_agent_paths(config, self.workspace, None, settings)
        location = SnapshotLocation(self.workspace, paths.snapshots_folder, paths.agent)
        codemode = CodeMode(
            CodeModeDeps(
                config=config,
                settings=settings,
                policy=policy,
                audit=self.log,
                mounts=self.mounts,
                home=paths.root,
                state=paths.state,
                agent=paths.agent,
                agent_id=None,
                on_connection=ignore_connection,
                list_own_tools=lambda: ServerListing("files", ()),
            )
        )
        return WorkspaceServices(
            mounts=self.mounts,
            policy=policy,
            limits=limits,
            read_tracker=ReadTracker(),
            sandboxes=sandboxes,
            codemode=codemode,
            snapshots=AutoSnapshots(location, Snapshots(automatic=False), lambda _: None),
            detector=FilesystemToolDetector(),
            agent_paths=paths,
        )

    def dispatch(
        self,
        function: ProbeFunction,
        mode: PermissionMode = PermissionMode.STRICT,
        limits: Limits = DEFAULT_LIMITS,
        *,
        read_only: bool = False,
        line: str | None = None,
    ) -> CallDispatcher:
        def run(arguments: ProbeArguments, gate: CallContext) -> Result:
            self.ran.append(arguments)
            return function(arguments, gate) or done("done")

        output = output_schema(said="string")

        def standing(arguments: ProbeArguments) -> str | None:
            del arguments
            return line

        tool = Tool(
            "Probe", "A probe.", ProbeArguments, output, run, "read", read_only=read_only, queue_name=standing
        )
        return CallDispatcher({"Probe": tool}, {}, self.resources(mode, limits), self.log)

    def gate(self, mode: PermissionMode = PermissionMode.STRICT, **options: Any) -> CallContext:
        return CallContext(self.resources(mode), call(), **options)


def done(text: str) -> Result:
    return Result((Text(text),), {"said": text})


def call(**options: Any) -> Call:
    return replace(Call("Probe", {}, "test", session="s", id="c1"), **options)


def touching(*kinds: Kind) -> ProbeFunction:
    """A tool's function that asks the context for each of its paths."""

    def run(arguments: ProbeArguments, gate: CallContext) -> None:
        for path in arguments.paths:
            with gate.open(path, *kinds):
                pass

    return run


class Hold:
    """A tool's function that runs until it is let go or, where it `heeds`, told to stop."""

    def __init__(self, *, heeds: bool = True) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()
        self._heeds = heeds

    def __call__(self, arguments: ProbeArguments, gate: CallContext) -> None:
        del arguments
        self.entered.set()
        while not self.release.wait(_TURN):
            if self._heeds:
                gate.check_time()

    async def is_running(self) -> None:
        await asyncio.to_thread(self.entered.wait, _LONGEST_WAIT)
