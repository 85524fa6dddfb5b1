"""A sandbox made of boxes: launches one, gives it runs, and another when it is lost.

`ProcessSandbox` is the one implementation of the `Sandbox` protocol; the kinds of sandbox differ in how they launch the
warden. It owns the box, its control group and the network's door until `close()`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB
from toolyard.core.paths import is_beneath
from toolyard.sandbox import guest_layout
from toolyard.sandbox.limits.cgroups import Cgroup
from toolyard.sandbox.limits.disk_watch import DiskWatch
from toolyard.sandbox.limits.memory_watch import MemoryWatch
from toolyard.sandbox.mount_guard import (
    Inodes,
    expected_mounts,
    mounted_inodes,
    open_without_symlinks,
    special_inodes,
)
from toolyard.sandbox.mount_watch import MountWatch
from toolyard.sandbox.process.change_recording import ChangeFrameReader, recording_setup
from toolyard.sandbox.process.channel import Channel
from toolyard.sandbox.process.client import NotStarted, SandboxProcess, lost_result
from toolyard.sandbox.proxy.endpoint import SOCKET_NAME, OnConnection, ProxyEndpoint, ignore_connection
from toolyard.sandbox.spec import Mount, OutputSink, RunEnding, RunRequest, RunResult, RunSetup, SandboxSpec, Tier

_DISK_RESERVE_BYTES = 256 * MIB
_MOST_FILES = 500_000
_KILLED_EXIT_CODE = 137
_EXIT_WAIT_SECONDS = 0.5
_MAX_PROCESSES_PER_RUN = 3
"""For one run: who ends every box before a run reaches it is not outwaited."""
_WITH_OWN_MOUNTS = frozenset({Tier.BUBBLEWRAP, Tier.NAMESPACES})
_WITH_OWN_NETWORK = frozenset({Tier.BUBBLEWRAP, Tier.NAMESPACES, Tier.DOCKER})


@dataclass(frozen=True, slots=True)
class LaunchedSupervisor:
    """A warden that was started and waits for its first frame."""

    process: subprocess.Popen[bytes]
    channel: Channel
    run_setup: RunSetup
    setup: Mapping[str, object]
    first_process: int | None = None
    """The warden's pid on this machine, where it can be put into a control group."""
    on_close: Callable[[], None] | None = None
    """Called once, after the box is closed."""


Launch = Callable[[SandboxSpec], LaunchedSupervisor]


class ProcessSandbox(Closeable):
    def __init__(self, tier: Tier, launch: Launch) -> None:
        self.tier = tier
        self.on_connection: OnConnection = ignore_connection
        """Told of each host that code inside wanted to reach."""
        self._launch = launch
        self._proxy: ProxyEndpoint | None = None
        self._spec: SandboxSpec | None = None
        self._process: SandboxProcess | None = None
        self._was_lost = False
        self._cgroup: Cgroup | None = None
        self._memory_watch: MemoryWatch | None = None
        self._start_inodes: tuple[Inodes, Inodes] = (), ()
        self._mount_watch: MountWatch | None = None
        self._mount_was_lost = False
        self._on_close: Callable[[], None] | None = None
        self._open_lock = threading.Lock()

    def start(self, spec: SandboxSpec) -> None:
        if spec.allowed_hosts and self.tier in _WITH_OWN_NETWORK:
            self._proxy = ProxyEndpoint.open(spec.allowed_hosts, self._report_connection)
            mount = Mount(self._proxy.folder, target=guest_layout.NETWORK)
            spec = replace(spec, mounts=(*spec.mounts, mount))
        if spec.broker and self.tier in _WITH_OWN_NETWORK:  # elsewhere files lie where they lie
            spec = replace(spec, mounts=(*spec.mounts, Mount(spec.broker, target=guest_layout.BROKER)))
        self._spec = spec
        self._open_process()

    def run(self, request: RunRequest, sink: OutputSink, cancelled: threading.Event) -> RunResult:
        for _ in range(_MAX_PROCESSES_PER_RUN):
            box, is_replaced = self._open_process()
            try:
                return self._run(box, request, sink, cancelled, is_replaced=is_replaced)
            except NotStarted:
                self._discard(box)
        return lost_result()

    def _run(
        self,
        process: SandboxProcess,
        request: RunRequest,
        sink: OutputSink,
        cancelled: threading.Event,
        *,
        is_replaced: bool,
    ) -> RunResult:
        covers, memory = self._mount_watch, self._memory_watch
        with self._disk_watch() as disk, covers.while_running() if covers else contextlib.nullcontext():

            def watch() -> str | None:
                if memory is not None:
                    memory.check()
                return disk.check()

            changes = self._change_reader(request)
            outcome = process.run(request, sink, cancelled, watch, changes)
        if outcome.ending is RunEnding.LOST and changes is not None:
            changes.mark_incomplete()
        if outcome.ending is RunEnding.LOST and self._mount_was_lost:
            outcome = replace(outcome, ending=RunEnding.MOUNT_LOST)
        group = self._cgroup
        if outcome.exit_code == _KILLED_EXIT_CODE and group is not None and group.was_out_of_memory():
            outcome = replace(outcome, ending=RunEnding.MEMORY)
        if outcome.exit_code == _KILLED_EXIT_CODE and memory is not None and memory.has_killed_process():
            outcome = replace(outcome, ending=RunEnding.MEMORY)
        if group is not None and group.was_out_of_processes():
            outcome = replace(outcome, hit_process_limit=True)
        if not process.is_up:
            self._discard(process)
        return replace(outcome, sandbox_is_new=is_replaced)

    def _change_reader(self, request: RunRequest) -> ChangeFrameReader | None:
        spec = self._spec
        if spec is None or request.changes is None or not spec.records_changes:
            return None
        return ChangeFrameReader(spec, request.changes)

    def drop_session(self, name: str) -> bool:
        box = self._process
        return box is not None and box.drop_session(name)

    def mounts_intact(self) -> bool:
        spec = self._spec
        return spec is not None and (mounted_inodes(spec), special_inodes(spec)) == self._start_inodes

    def close(self) -> None:
        with self._open_lock:
            self._spec = None
            self._close_process()
            door, self._proxy = self._proxy, None
            if door is not None:
                door.close()

    def _report_connection(self, host: str, port: int, allowed: bool) -> None:
        self.on_connection(host, port, allowed)

    def _watch_mounts(self, process: SandboxProcess, spec: SandboxSpec, covered: Inodes) -> None:
        def end() -> None:
            """A cover that is gone is open to every process inside, so that all of them end."""
            self._mount_was_lost = True
            process.kill()

        self._mount_was_lost = False
        is_watched = bool(covered) and self.tier is not Tier.NONE  # where nothing is closed, nothing can come open
        self._mount_watch = MountWatch(lambda: mounted_inodes(spec) == covered, end) if is_watched else None

    @contextlib.contextmanager
    def _disk_watch(self) -> Generator[DiskWatch]:
        spec, group = self._spec, self._cgroup
        if spec is None:
            raise _closed_error()
        beside = [mount for mount in spec.mounts if not is_beneath(mount.source, spec.workspace)]
        folders = [spec.workspace] if spec.writable else []
        folders += [mount.source for mount in beside if mount.writable and os.path.isdir(mount.source)]
        watch = DiskWatch(
            folders,
            max_bytes=spec.limits.disk_bytes,
            max_files=_MOST_FILES,
            reserve_bytes=_DISK_RESERVE_BYTES,
            processes=group.processes if group is not None else tuple,
        )
        try:
            try:
                watch.start()
            except OSError as error:
                message = f"{error.filename} cannot be looked at: {error.strerror}."
                raise SystemFault(message, hint="Look whether the workspace is still there.") from error
            yield watch
        finally:
            watch.close()

    def _open_process(self) -> tuple[SandboxProcess, bool]:
        """The box, and whether it had to be replaced just now."""
        box = self._process
        if box is not None and box.is_up:
            return box, False
        with self._open_lock:
            if self._spec is None:
                raise _closed_error()
            if self._process is not None and self._process.is_up:
                return self._process, False
            lost = self._was_lost or self._process is not None
            self._close_process()
            self._start_inodes = mounted_inodes(self._spec), special_inodes(self._spec)
            box = self._launch_process(self._spec)
            self._watch_mounts(box, self._spec, self._start_inodes[0])
            self._process, self._was_lost = box, False  # last: from here on others run in it
            return box, lost

    def _discard(self, process: SandboxProcess) -> None:
        """End what may still run in a lost box: perhaps it only does not answer. The next run gets another."""
        with self._open_lock:
            if self._process is not process:
                return
            if self.tier in _WITH_OWN_MOUNTS:  # and so its own processes; without, the warden has to end them itself
                process.kill()
            self._close_process()
            self._was_lost = True

    def _launch_process(self, spec: SandboxSpec) -> SandboxProcess:
        # Whatever a link leads to would be shown inside, and written, as if it were the workspace.
        for path in (spec.workspace, *(mount.source for mount in spec.mounts), *spec.hidden, *spec.special):
            os.close(open_without_symlinks(path))
        launched = self._launch(spec)
        box = SandboxProcess(launched.process, launched.channel, launched.run_setup, launched.first_process)
        with contextlib.ExitStack() as undo:
            self._on_close = launched.on_close
            undo.callback(self._close_cgroup)
            undo.callback(box.close)
            if launched.first_process is not None:
                # The warden runs nothing before its first frame, so all that follows is in the group with it.
                self._cgroup = Cgroup.create(
                    memory_bytes=spec.limits.memory_bytes, processes=spec.limits.processes, name="box"
                )
                if self._cgroup is not None:
                    self._add_to_cgroup(launched, self._cgroup)
                if self._cgroup is None or "memory" not in self._cgroup.enforced_limits:
                    self._memory_watch = MemoryWatch(launched.first_process, spec.limits.memory_bytes)
            forward = f"{guest_layout.NETWORK}/{SOCKET_NAME}" if self._proxy else ""
            mounted = self.tier in _WITH_OWN_MOUNTS
            covered = [*spec.hidden, *spec.special]
            checked = {"shown": expected_mounts(spec) if mounted else [], "hidden": covered if mounted else []}
            network = {"forward": forward, "forward_port": guest_layout.PROXY_PORT}
            box.set_up({**launched.setup, **checked, **recording_setup(spec), **network})
            undo.pop_all()
        return box

    @staticmethod
    def _add_to_cgroup(launched: LaunchedSupervisor, group: Cgroup) -> None:
        try:
            first = launched.first_process or 0
            group.add(first)
            for child in _child_pids(first):  # the one worker it may have forked before it was in the group
                group.add(child)
        except SystemFault:
            with contextlib.suppress(subprocess.TimeoutExpired):
                launched.process.wait(_EXIT_WAIT_SECONDS)
                return  # it failed to start, and the next step tells why
            raise

    def _close_process(self) -> None:
        covers, self._mount_watch = self._mount_watch, None
        if covers is not None:
            covers.close()
        box, self._process = self._process, None
        if box is not None:
            box.close()
        self._close_cgroup()

    def _close_cgroup(self) -> None:
        group, self._cgroup, self._memory_watch = self._cgroup, None, None
        if group is not None:
            group.close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()


def _child_pids(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _closed_error() -> SystemFault:
    return SystemFault("The sandbox is closed.", hint="Open the workspace again.")
