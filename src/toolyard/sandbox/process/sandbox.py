"""The sandbox that every tier uses: starts a supervisor process, runs requests in it, and replaces it if it is lost.

`ProcessSandbox` is the only implementation of the `Sandbox` protocol; the tiers differ in how they launch the
supervisor. It owns the process, its control group and the network proxy until `close()`.
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
from toolyard.sandbox.mount_plan import expected_mounts, open_without_symlinks
from toolyard.sandbox.process.change_recording import ChangeFrameReader, recording_setup
from toolyard.sandbox.process.client import Channel, NotStarted, SandboxProcess, lost_result
from toolyard.sandbox.process.watches import (
    DiskWatch,
    Inodes,
    MemoryWatch,
    MountWatch,
    mounted_inodes,
    special_inodes,
)
from toolyard.sandbox.proxy.endpoint import SOCKET_NAME, OnConnection, ProxyEndpoint, ignore_connection
from toolyard.sandbox.spec import Mount, OutputSink, RunEnding, RunRequest, RunResult, RunSetup, SandboxSpec, Tier

_DISK_RESERVE_BYTES = 256 * MIB
_MOST_FILES = 500_000
_KILLED_EXIT_CODE = 137
_EXIT_WAIT_SECONDS = 0.5
_MAX_PROCESSES_PER_RUN = 3
"""How many sandbox processes one run may try: code that keeps killing them must not retry forever."""
_WITH_OWN_MOUNTS = frozenset({Tier.BUBBLEWRAP, Tier.NAMESPACES})
_WITH_OWN_NETWORK = frozenset({Tier.BUBBLEWRAP, Tier.NAMESPACES, Tier.DOCKER})


@dataclass(frozen=True, slots=True)
class LaunchedSupervisor:
    """A supervisor that was started and waits for its first frame."""

    process: subprocess.Popen[bytes]
    channel: Channel
    run_setup: RunSetup
    setup: Mapping[str, object]
    first_process: int | None = None
    """The supervisor's pid on this machine, if it can be added to a control group."""
    on_close: Callable[[], None] | None = None
    """Called once, after the process is closed."""


Launch = Callable[[SandboxSpec], LaunchedSupervisor]


class ProcessSandbox(Closeable):
    """Runs requests in a sandbox process that `launch` starts, with limits, mounts and network as the spec says."""

    def __init__(self, tier: Tier, launch: Launch) -> None:
        self.tier = tier
        self.on_connection: OnConnection = ignore_connection
        """Called for each host that code inside tried to reach."""
        self._launch = launch
        self._proxy: ProxyEndpoint | None = None
        self._spec: SandboxSpec | None = None
        self._writable_folders: list[str] = []
        """The workspace and other mounts that runs may fill."""
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
        if spec.broker and self.tier in _WITH_OWN_NETWORK:  # other tiers see the host's own paths
            spec = replace(spec, mounts=(*spec.mounts, Mount(spec.broker, target=guest_layout.BROKER)))
        self._spec = spec
        beside = (mount for mount in spec.mounts if not is_beneath(mount.source, spec.workspace))
        self._writable_folders = [spec.workspace] if spec.writable else []
        self._writable_folders += [mount.source for mount in beside if mount.writable]
        self._open_process()

    def run(self, request: RunRequest, sink: OutputSink, cancelled: threading.Event) -> RunResult:
        for _ in range(_MAX_PROCESSES_PER_RUN):
            process, is_replaced = self._open_process()
            try:
                return self._run(process, request, sink, cancelled, is_replaced=is_replaced)
            except NotStarted:
                self._discard(process)
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
        mount_watch, memory_watch = self._mount_watch, self._memory_watch
        with (
            self._disk_watch() as disk_watch,
            mount_watch.while_running() if mount_watch else contextlib.nullcontext(),
        ):

            def watch() -> str | None:
                if memory_watch is not None:
                    memory_watch.check()
                return disk_watch.check()

            changes = self._change_reader(request)
            outcome = process.run(request, sink, cancelled, watch, changes)
        if outcome.ending is RunEnding.LOST and changes is not None:
            changes.mark_incomplete()
        if outcome.ending is RunEnding.LOST and self._mount_was_lost:
            outcome = replace(outcome, ending=RunEnding.MOUNT_LOST)
        cgroup = self._cgroup
        if outcome.exit_code == _KILLED_EXIT_CODE and cgroup is not None and cgroup.was_out_of_memory():
            outcome = replace(outcome, ending=RunEnding.MEMORY)
        if outcome.exit_code == _KILLED_EXIT_CODE and memory_watch is not None and memory_watch.has_killed_process():
            outcome = replace(outcome, ending=RunEnding.MEMORY)
        if cgroup is not None and cgroup.was_out_of_processes():
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
        process = self._process
        return process is not None and process.drop_session(name)

    def mounts_intact(self) -> bool:
        spec = self._spec
        return spec is not None and (mounted_inodes(spec), special_inodes(spec)) == self._start_inodes

    def close(self) -> None:
        with self._open_lock:
            self._spec = None
            self._close_process()
            proxy, self._proxy = self._proxy, None
            if proxy is not None:
                proxy.close()

    def _report_connection(self, host: str, port: int, allowed: bool) -> None:
        self.on_connection(host, port, allowed)

    def _watch_mounts(self, process: SandboxProcess, spec: SandboxSpec, inodes: Inodes) -> None:
        def end() -> None:
            """Kills every process inside: a file without its mount is open to all of them."""
            self._mount_was_lost = True
            process.kill()

        self._mount_was_lost = False
        is_watched = bool(inodes) and self.tier is not Tier.NONE  # without protection there is nothing to watch
        self._mount_watch = MountWatch(lambda: mounted_inodes(spec) == inodes, end) if is_watched else None

    @contextlib.contextmanager
    def _disk_watch(self) -> Generator[DiskWatch]:
        spec, group = self._spec, self._cgroup
        if spec is None:
            raise _closed_error()
        watch = DiskWatch(
            [folder for folder in self._writable_folders if folder == spec.workspace or os.path.isdir(folder)],
            max_bytes=spec.limits.disk_bytes,
            max_files=_MOST_FILES,
            reserve_bytes=_DISK_RESERVE_BYTES,
            processes=group.processes if group is not None else tuple,
        )
        try:
            try:
                watch.start()
            except OSError as error:
                message = f"{error.filename} cannot be opened: {error.strerror}."
                raise SystemFault(message, hint="Check that the workspace still exists.") from error
            yield watch
        finally:
            watch.close()

    def _open_process(self) -> tuple[SandboxProcess, bool]:
        """Returns the sandbox process, and whether it has just been replaced."""
        process = self._process
        if process is not None and process.is_up:
            return process, False
        with self._open_lock:
            if self._spec is None:
                raise _closed_error()
            if self._process is not None and self._process.is_up:
                return self._process, False
            lost = self._was_lost or self._process is not None
            self._close_process()
            self._start_inodes = mounted_inodes(self._spec), special_inodes(self._spec)
            process = self._launch_process(self._spec)
            self._watch_mounts(process, self._spec, self._start_inodes[0])
            self._process, self._was_lost = process, False  # last: from here on other threads use it
            return process, lost

    def _discard(self, process: SandboxProcess) -> None:
        """Ends a lost process, which may only be unresponsive. The next run gets another one."""
        with self._open_lock:
            if self._process is not process:
                return
            if (
                self.tier in _WITH_OWN_MOUNTS
            ):  # and its own pid namespace; without one, the supervisor has to end the processes itself
                process.kill()
            self._close_process()
            self._was_lost = True

    def _launch_process(self, spec: SandboxSpec) -> SandboxProcess:
        # The target of a link would be mounted inside, and be writable, as if it were the workspace.
        for path in (spec.workspace, *(mount.source for mount in spec.mounts), *spec.hidden, *spec.special):
            os.close(open_without_symlinks(path))
        launched = self._launch(spec)
        process = SandboxProcess(launched.process, launched.channel, launched.run_setup, launched.first_process)
        with contextlib.ExitStack() as undo:
            self._on_close = launched.on_close
            undo.callback(self._close_cgroup)
            undo.callback(process.close)
            if launched.first_process is not None:
                # The supervisor starts nothing before its first frame, so every later process joins its group.
                self._cgroup = Cgroup.create(
                    memory_bytes=spec.limits.memory_bytes, processes=spec.limits.processes, name="box"
                )
                if self._cgroup is not None:
                    self._add_to_cgroup(launched, self._cgroup)
                if self._cgroup is None or "memory" not in self._cgroup.enforced_limits:
                    self._memory_watch = MemoryWatch(launched.first_process, spec.limits.memory_bytes)
            forward = f"{guest_layout.NETWORK}/{SOCKET_NAME}" if self._proxy else ""
            mounted = self.tier in _WITH_OWN_MOUNTS
            hidden = [*spec.hidden, *spec.special]
            checked = {"shown": expected_mounts(spec) if mounted else [], "hidden": hidden if mounted else []}
            network = {"forward": forward, "forward_port": guest_layout.PROXY_PORT}
            process.set_up({**launched.setup, **checked, **recording_setup(spec), **network})
            undo.pop_all()
        return process

    @staticmethod
    def _add_to_cgroup(launched: LaunchedSupervisor, group: Cgroup) -> None:
        try:
            first = launched.first_process or 0
            group.add(first)
            for child in _child_pids(first):  # the first worker may have been forked before the supervisor was added
                group.add(child)
        except SystemFault:
            with contextlib.suppress(subprocess.TimeoutExpired):
                launched.process.wait(_EXIT_WAIT_SECONDS)
                return  # it failed to start; the next step reports why
            raise

    def _close_process(self) -> None:
        mount_watch, self._mount_watch = self._mount_watch, None
        if mount_watch is not None:
            mount_watch.close()
        process, self._process = self._process, None
        if process is not None:
            process.close()
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
