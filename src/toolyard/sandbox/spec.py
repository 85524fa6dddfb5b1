"""What a sandbox is started with, and what its runs return. Pure data, the same for every kind of sandbox.

Sandbox.start(SandboxSpec)                    isolates one agent's folders
Sandbox.run(RunRequest, sink) -> RunResult    any number of times, from any thread
Sandbox.close()                               ends everything in it
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from toolyard.core.limits import DEFAULT_RUN_LIMITS, RunLimits


class Tier(StrEnum):
    """The kinds of sandbox, the strongest isolation first."""

    DOCKER = "docker"
    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"

    @property
    def is_weak(self) -> bool:
        return self in {Tier.LANDLOCK, Tier.NONE}


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the host that is visible inside at `target` (the same path if that is empty)."""

    source: str
    writable: bool = False
    target: str = ""

    @property
    def inside(self) -> str:
        return self.target or self.source


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything a sandbox needs to know when it starts."""

    workspace: str
    """Real path of the agent's folder, where runs start."""
    writable: bool = True
    mounts: tuple[Mount, ...] = ()
    """Mounts beside the workspace, and inside it for parts with other rights; a later one covers an earlier one."""
    hidden: tuple[str, ...] = ()
    """Real paths that appear empty inside: files that the policy does not let agents read."""
    special: tuple[str, ...] = ()
    """Sockets and named pipes of the host's programs, which a sandbox with mounts has to hide too."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables for runs, in addition to the few that every run gets. The host's other variables are not visible."""
    allowed_hosts: tuple[str, ...] = ()
    limits: RunLimits = DEFAULT_RUN_LIMITS
    broker: str = ""
    """Real path of the folder with the broker's sockets, through which code inside calls tools. Empty: no broker."""
    packages: str = ""
    """With a broker: the folder that `servers`, `tools` and `skills` are imported from; the workspace if empty."""
    records_changes: bool = False
    """Whether runs can record what they change. Each run then starts a little later."""


class RunKind(StrEnum):
    """What a run executes."""

    COMMAND = "command"
    PYTHON = "python"


class ChangedPath(NamedTuple):
    """A path that a process of a run created, changed or removed, or tried to."""

    path: bytes
    """The absolute path on the host, with links resolved."""
    is_tree: bool
    """Whether everything beneath it may have changed."""
    time_ns: int


class ChangeSink(Protocol):
    """Receives what a run changes, while it runs, in the thread that called `run`."""

    def report_coverage(self, *, is_complete: bool) -> None:
        """Reports whether `add_changes` gets everything that the run changes.

        Never called if recording is impossible.
        """
        ...

    def add_changes(self, paths: Sequence[ChangedPath]) -> None:
        """Adds changed paths.

        They come from the run's own processes: trust them only as a statement about this run.
        """
        ...


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One command or piece of Python code to run."""

    kind: RunKind
    code: str
    seconds: float
    session: str = ""
    """Python only: the name of the session whose variables the code shares."""
    folder: str = ""
    """The working folder; the workspace if empty."""
    output_bytes: int = 0
    """How much it may print before it is ended; the sandbox's own limit if 0."""
    changes: ChangeSink | None = None
    """The sink for its changes, in a sandbox whose spec has `records_changes`."""


class RunEnding(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    BUSY = "busy"
    """It never started: another run occupied its session until its time was up."""
    OUTPUT = "output"
    """It printed more than `output_bytes`."""
    DISK = "disk"
    """It wrote more than `disk_bytes`."""
    MEMORY = "memory"
    """The kernel ended it because the sandbox used more than `memory_bytes`."""
    MOUNT_LOST = "uncovered"
    """A file that was hidden or read-only inside was replaced on the host, which removes the mount over it."""
    LOST = "lost"
    """The sandbox itself went away during the run."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run returned."""

    ending: RunEnding
    exit_code: int
    """The exit code as a shell reports it: 128 plus the signal's number for a killed process."""
    value: Mapping[str, object] | None = None
    """The answer of the Python code. It comes from inside the sandbox: do not trust it."""
    folder: str = ""
    """The folder in which a command ended, if it reported one."""
    leftover_processes: int = 0
    """How many processes outlived the run and were ended."""
    reason: str = ""
    hit_process_limit: bool = False
    """Whether the sandbox was refused another process during the run because of its limit."""
    session_is_new: bool = False
    sandbox_is_new: bool = False
    """Whether the sandbox was lost since the last run: its /tmp and its sessions are gone."""


class Stream(StrEnum):
    """The output streams of a run."""

    OUT = "stdout"
    ERR = "stderr"


OutputSink = Callable[[Stream, bytes], None]
"""Receives output as it arrives, in the thread that called `run`."""


class Sandbox(Protocol):
    """An isolated environment for one agent.

    Call `start` once, `run` from any thread; `close` may be called twice.
    """

    tier: Tier

    def start(self, spec: SandboxSpec) -> None: ...

    def run(self, request: RunRequest, sink: OutputSink, cancelled: threading.Event) -> RunResult: ...

    def drop_session(self, name: str) -> bool:
        """Ends a Python session and drops its variables. Returns False if there was none."""
        ...

    def mounts_intact(self) -> bool:
        """Whether each protected file is still the one from the start: a replacement would be unprotected."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunSetup:
    """The settings that all runs of a sandbox share."""

    workspace: str
    shell: str
    environment: Mapping[str, str]
    limits: Mapping[str, int]
    output_bytes: int
