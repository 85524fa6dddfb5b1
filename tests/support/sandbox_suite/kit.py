"""What every kind of sandbox must do: the equipment. The cases are in `sandboxing_*`.

A test module says which sandbox it is about and takes the cases over:

    @pytest.fixture
    def kit(tmp_path):
        with Kit(Subject(make, RECIPE), str(tmp_path)) as kit:
            yield kit

    class TestRuns(Runs): ...

One suite serves all tiers. What a weak tier cannot hold is declared by its `Strength`, and the case then asserts the
contrary: an attack that succeeds where nothing stands against it shows that the case tests something.

A Kit owns the sandboxes it opened and the processes in them. `close()` ends both, and fails when it finds one left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ToolyardError
from toolyard.core.limits import MIB, RunLimits
from toolyard.sandbox import guest_layout
from toolyard.sandbox.limits.cgroups import Cgroup
from toolyard.sandbox.spec import (
    Mount,
    OutputSink,
    RunKind,
    RunRequest,
    RunResult,
    Sandbox,
    SandboxSpec,
    Stream,
    Tier,
)

RUN_SECONDS = 30.0
GONE_SECONDS = 1.0
"""How long anything may outlive a run that was ended."""
LOST_SECONDS = 10.0
MARK = "TOOLYARD_TEST_MARK"
_POLL_SECONDS = 0.01
_WORKERS = 32

# What a host does that is killed: opens a sandbox, and prints a line as soon as something runs in it.
_HOST = """
import sys, threading
from toolyard.sandbox.spec import RunRequest, SandboxSpec, RunKind
{recipe}
sandbox.start(SandboxSpec(workspace=sys.argv[1], environment={{{mark!r}: sys.argv[2]}}))
request = RunRequest(RunKind.COMMAND, sys.argv[3], {seconds})
sandbox.run(request, lambda stream, data: print("up", flush=True), threading.Event())
"""


@dataclass(frozen=True, slots=True)
class Strength:
    """Which walls stand."""

    confines_files: bool
    """Only what was named can be read, and only what is writable be changed."""
    own_spaces: bool
    """Its own mounts, processes and loopback network: a private /tmp, pid 1, nothing of the host's in sight."""
    bounds_processes: bool

    @classmethod
    def of(cls, tier: Tier) -> Strength:
        own_spaces = tier in {Tier.DOCKER, Tier.BUBBLEWRAP, Tier.NAMESPACES}
        counted = own_spaces and guest_layout.pid_max(RunLimits()) > 0
        return cls(
            confines_files=tier is not Tier.NONE,
            own_spaces=own_spaces,
            # The user's own limit does not bind root.
            bounds_processes=tier is Tier.DOCKER or counted or os.geteuid() != 0 or has_cgroups(),
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """The kind of sandbox under test."""

    make: Callable[[], Sandbox]
    """A new one, not started."""
    recipe: str
    """Python source that leaves one, not started, in `sandbox`: for a host process that is killed."""
    lose: Callable[[Sandbox], None] | None = None
    """Takes the box away from outside; by default all processes below this one that came with it are killed."""


@dataclass(slots=True)
class Ran:
    """One run: how it ended and what it printed."""

    outcome: RunResult
    out: bytes
    err: bytes
    seconds: float

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def code(self) -> int:
        return self.outcome.exit_code

    @property
    def value(self) -> object:
        """The repr of the last expression; fails with what the code raised instead."""
        answer = self.outcome.value
        assert answer is not None, (self.outcome, self.err)
        assert answer["error"] is None, answer["error"]
        return answer["value"]

    @property
    def raised(self) -> str:
        answer = self.outcome.value
        assert answer is not None, (self.outcome, self.err)
        return str(answer["error"] or "")


@dataclass(slots=True)
class Opened:
    """A sandbox that was started, and the handiest ways to use it."""

    sandbox: Sandbox
    spec: SandboxSpec
    processes: frozenset[int]
    """Direct children of this process that came with it."""
    _pool: ThreadPoolExecutor

    def run(
        self, request: RunRequest, sink: OutputSink | None = None, cancelled: threading.Event | None = None
    ) -> Ran:
        kept: dict[Stream, bytearray] = {Stream.OUT: bytearray(), Stream.ERR: bytearray()}

        def keep(stream: Stream, data: bytes) -> None:
            kept[stream].extend(data)
            if sink is not None:
                sink(stream, data)

        began = time.monotonic()
        outcome = self.sandbox.run(request, keep, cancelled or threading.Event())
        return Ran(outcome, bytes(kept[Stream.OUT]), bytes(kept[Stream.ERR]), time.monotonic() - began)

    def command(self, code: str, *, seconds: float = RUN_SECONDS, folder: str = "") -> Ran:
        return self.run(RunRequest(RunKind.COMMAND, code, seconds, folder=folder))

    def python(self, code: str, *, seconds: float = RUN_SECONDS, session: str = "") -> Ran:
        return self.run(RunRequest(RunKind.PYTHON, code, seconds, session=session))

    def begin(self, code: str, *, what: RunKind = RunKind.COMMAND) -> Begun:
        """Start a run in a thread of its own; returns when it has printed something."""
        printed, cancelled = threading.Event(), threading.Event()
        request = RunRequest(what, code, RUN_SECONDS)

        def note(_stream: Stream, _data: bytes) -> None:
            printed.set()

        future = self._pool.submit(self.run, request, note, cancelled)
        if not printed.wait(RUN_SECONDS):
            raise AssertionError(f"nothing was printed: {future}")
        return Begun(future, cancelled)

    def at_once(self, codes: list[str]) -> list[Ran]:
        return list(self._pool.map(self.command, codes))


@dataclass(frozen=True, slots=True)
class Begun:
    future: Future[Ran]
    cancelled: threading.Event

    def result(self) -> Ran:
        return self.future.result(RUN_SECONDS)


@dataclass
class Kit(Closeable):
    """A workspace, a folder outside of it, and sandboxes around the one."""

    subject: Subject
    folder: str
    mark: str = field(default_factory=lambda: f"mark-{uuid.uuid4().hex}")

    def __post_init__(self) -> None:
        self.folder = os.path.realpath(self.folder)
        self.workspace = f"{self.folder}/workspace"
        self.outside = f"{self.folder}/outside"
        for path in (self.workspace, self.outside):
            os.mkdir(path)
        self.secret = self.file("outside/secret", "what nobody may read\n")
        self._pool = ThreadPoolExecutor(_WORKERS)
        self._opened: list[Sandbox] = []
        self.tier = self.subject.make().tier
        self.strength = Strength.of(self.tier)

    def open(
        self,
        *,
        writable: bool = True,
        mounts: tuple[Mount, ...] = (),
        hidden: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        limits: RunLimits | None = None,
        broker: str = "",
        records_changes: bool = False,
    ) -> Opened:
        named = {MARK: self.mark, **(environment or {})}
        spec = SandboxSpec(
            workspace=self.workspace,
            writable=writable,
            mounts=mounts,
            hidden=hidden,
            environment=named,
            limits=limits or RunLimits(),
            broker=broker,
            records_changes=records_changes,
        )
        before = children_of(os.getpid())
        sandbox = self.subject.make()
        self._opened.append(sandbox)
        sandbox.start(spec)
        came = frozenset(children_of(os.getpid()) - before)
        return Opened(sandbox, spec, came, self._pool)

    def file(self, path: str, text: str) -> str:
        """Write a file below the test's folder; the full path of it."""
        full = f"{self.folder}/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        return full

    def lose(self, opened: Opened) -> None:
        if self.subject.lose is not None:
            self.subject.lose(opened.sandbox)
            return
        for pid in self.stop(opened):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self, opened: Opened) -> set[int]:
        """Hold all of a box with SIGSTOP, those too that came to be meanwhile; the processes that are held."""
        held: set[int] = set()
        while found := {*opened.processes, *descendants_of(opened.processes)} - held:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            held |= found
        return held

    def marked(self) -> dict[int, str]:
        """The processes that carry this kit's mark, with their command lines."""
        return dict(_marked(self.mark))

    def left_behind(self) -> dict[int, str]:
        """The same, less the shell and the worker that each open sandbox keeps waiting for the next run."""
        left = self.marked()
        waiting = [pid for pid in left if _waits(pid)]
        shells = [pid for pid in waiting if "toolyard_runtime" not in left[pid]]
        workers = [pid for pid in waiting if "toolyard_runtime" in left[pid]]
        kept = {*shells[: len(self._opened)], *workers[: len(self._opened)]}
        return {pid: line for pid, line in left.items() if pid not in kept}

    def all_gone(self, seconds: float = GONE_SECONDS) -> bool:
        return within(seconds, lambda: not self.left_behind())

    @contextlib.contextmanager
    def host(self, command: str) -> Generator[subprocess.Popen[str]]:
        """Another process that has a sandbox open and runs a command in it, which has printed something."""
        code = _HOST.format(recipe=self.subject.recipe, mark=MARK, seconds=RUN_SECONDS)
        line = [sys.executable, "-c", code, self.workspace, self.mark, command]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as host:
            try:
                assert host.stdout is not None
                assert host.stdout.readline() == "up\n"
                yield host
            finally:
                host.kill()

    def close(self) -> None:
        for sandbox in self._opened:
            sandbox.close()
        self._opened.clear()
        self._pool.shutdown()
        gone = self.all_gone()
        left = self.marked()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert gone, f"left behind: {left}"


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition came true in time. For what sends no event: processes that go away."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def refusal(attempt: Callable[[], object]) -> str:
    """What Toolyard says to an attempt that must fail."""
    try:
        attempt()
    except ToolyardError as error:
        return error.message
    raise AssertionError("it went through")


def children_of(pid: int) -> set[int]:
    return {child for child, parent in _parents() if parent == pid}


def descendants_of(roots: frozenset[int]) -> set[int]:
    parents = dict(_parents())
    found: set[int] = set()
    frontier = set(roots)
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return found


def tight(**changes: int) -> RunLimits:
    """Limits that are small enough to be reached in a test."""
    return RunLimits(**{"memory_bytes": 512 * MIB, **changes})  # type: ignore[arg-type]


def _parents() -> Iterator[tuple[int, int]]:
    for pid, stat in _each("stat"):
        yield pid, int(stat[stat.rindex(b")") + 2 :].split()[1])


def _waits(pid: int) -> bool:
    """Whether a process has the descriptor that requests come from: a shell gives it up when it has read its own."""
    try:
        return os.readlink(f"/proc/{pid}/fd/4").startswith(("pipe:", "socket:"))
    except OSError:
        return False


def _marked(mark: str) -> Iterator[tuple[int, str]]:
    """Dead ones do not count: neither file of theirs can be read any more."""
    lines = dict(_each("cmdline"))
    for pid, environment in _each("environ"):
        line = lines.get(pid, b"")
        if mark.encode() in environment + line and pid != os.getpid():
            yield pid, line.replace(b"\0", b" ").decode("utf-8", "replace")


def _each(name: str) -> Iterator[tuple[int, bytes]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/{name}", "rb") as file:
                yield int(entry), file.read()


def has_cgroups() -> bool:
    """Whether the processes of a sandbox can be counted together."""
    group = Cgroup.create(memory_bytes=MIB, processes=1, name="probe")
    if group is None:
        return False
    group.close()
    return "processes" in group.enforced_limits
