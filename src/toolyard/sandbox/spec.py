"""What a sandbox is asked for, and what it gives back. Pure data, the same for every kind of sandbox.

Sandbox.start(Spec)                 a box around one agent's folders
Sandbox.run(Request, sink) -> Outcome   any number of times, from any thread
Sandbox.close()                     ends everything in it
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from toolyard.core.limits import DEFAULT_RUN_LIMITS, RunLimits


class Tier(StrEnum):
    """How strong the walls are, the strongest first."""

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
    """A file or folder of the host that is seen inside, at `target` (the same path when left out)."""

    source: str
    writable: bool = False
    target: str = ""

    @property
    def inside(self) -> str:
        return self.target or self.source


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    workspace: str
    """Real path of the agent's folder: where runs start."""
    writable: bool = True
    mounts: tuple[Mount, ...] = ()
    """Beside the workspace, and inside it where a part has other rights; a later one covers an earlier one."""
    hidden: tuple[str, ...] = ()
    """Real paths that seem empty inside: what the policy does not let agents read."""
    special: tuple[str, ...] = ()
    """Sockets and named pipes of the host's programs, which a wall of mounts has to cover too."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that runs see beside the few every run gets. Nothing else of the host's environment is seen."""
    allowed_hosts: tuple[str, ...] = ()
    limits: RunLimits = DEFAULT_RUN_LIMITS
    broker: str = ""
    """Real path of the folder with the agent's broker's sockets: how code inside calls tools. None when empty."""
    packages: str = ""
    """With a broker: where `servers`, `tools` and `skills` are imported from, the workspace when empty."""
    records_changes: bool = False
    """Whether runs can be asked for with a record of what they change. Each run starts a little later then."""


class RunKind(StrEnum):
    COMMAND = "command"
    PYTHON = "python"


class ChangedPath(NamedTuple):
    """A path that a process of a run created, changed or removed, or tried to."""

    path: bytes
    """On the host, absolute, without links on the way."""
    is_tree: bool
    """Whether everything beneath it is meant."""
    time_ns: int


class ChangeSink(Protocol):
    """Gets what a run changes while it runs, in the thread that called `run`."""

    def report_coverage(self, *, is_complete: bool) -> None:
        """Whether `add_changes` gets all that the run changes. Never called where nothing can be recorded."""
        ...

    def add_changes(self, paths: Sequence[ChangedPath]) -> None:
        """The run's processes say what they do: believe that it is about this run, and nothing else."""
        ...


@dataclass(frozen=True, slots=True)
class RunRequest:
    kind: RunKind
    code: str
    seconds: float
    session: str = ""
    """Python only: the name of the session whose variables the code shares."""
    folder: str = ""
    """Where it starts, the workspace when empty."""
    output_bytes: int = 0
    """What it may print before it is ended; the sandbox's own limit when 0."""
    changes: ChangeSink | None = None
    """Where what it changes is recorded, in a sandbox whose Spec says so."""


class RunEnding(StrEnum):
    FINISHED = "finished"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    BUSY = "busy"
    """It never began: another run had its session until its time was up."""
    OUTPUT = "output"
    """It printed more than `output_bytes`."""
    DISK = "disk"
    """It wrote more than `disk_bytes`."""
    MEMORY = "memory"
    """The kernel ended it because the sandbox used more than `memory_bytes`."""
    MOUNT_LOST = "uncovered"
    """A file that was hidden or read-only inside was replaced on the host, which takes the cover off."""
    LOST = "lost"
    """The sandbox itself went away under it."""


@dataclass(frozen=True, slots=True)
class RunResult:
    ending: RunEnding
    exit_code: int
    """As a shell tells it: 128 and the signal's number for a process that was killed."""
    value: Mapping[str, object] | None = None
    """What the Python code answered. It crossed the wall: believe none of it."""
    folder: str = ""
    """Where a command ended, when it told."""
    leftover_processes: int = 0
    """Processes that outlived the run and were ended."""
    reason: str = ""
    hit_process_limit: bool = False
    """The sandbox had as many processes as it may, and was refused another, while it ran."""
    session_is_new: bool = False
    sandbox_is_new: bool = False
    """The sandbox was lost since the last run: its /tmp and its sessions are gone."""


class Stream(StrEnum):
    OUT = "stdout"
    ERR = "stderr"


OutputSink = Callable[[Stream, bytes], None]
"""Gets output as it comes, in the thread that called `run`."""


class Sandbox(Protocol):
    """One box. `start` is called once; `run` from any thread; `close` ends all runs and may be called twice."""

    tier: Tier

    def start(self, spec: SandboxSpec) -> None: ...

    def run(self, request: RunRequest, sink: OutputSink, cancelled: threading.Event) -> RunResult: ...

    def drop_session(self, name: str) -> bool:
        """Forget a Python session and its variables. False when there was none."""
        ...

    def mounts_intact(self) -> bool:
        """Whether each file that is covered is the one that it was at the start: one put in its place is open."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What is the same for every run of a box."""

    workspace: str
    shell: str
    environment: Mapping[str, str]
    limits: Mapping[str, int]
    output_bytes: int
