"""A sandbox made of boxes: launches one, gives it runs, and another when it is lost.

`BoxSandbox` is the one implementation of the `Sandbox` protocol; the kinds of sandbox differ in how they launch the
warden. It owns the box, its control group and the network's door until `close()`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace

from toolyard.core.closeable import Closing
from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB
from toolyard.core.paths import is_beneath
from toolyard.sandbox import guest_layout
from toolyard.sandbox.limits.cgroups import Cgroup
from toolyard.sandbox.limits.disk_watch import DiskWatch
from toolyard.sandbox.limits.memory_watch import MemoryWatch
from toolyard.sandbox.mount_guard import Identities, identities, open_plain, placed, special_identities
from toolyard.sandbox.mount_watch import CoverWatch
from toolyard.sandbox.process.change_recording import RecordedChanges, recording_setup
from toolyard.sandbox.process.channel import Line
from toolyard.sandbox.process.client import Box, Unreached, lost
from toolyard.sandbox.proxy.endpoint import SOCKET_NAME, Door, OnConnection, tell_nobody
from toolyard.sandbox.spec import Ending, Mount, Outcome, Request, RunSetup, Sink, Spec, Tier

_KEPT_FREE_BYTES = 256 * MIB
_MOST_FILES = 500_000
_KILLED = 137
_GONE_SECONDS = 0.5
_MOST_BOXES = 3
"""For one run: who ends every box before a run reaches it is not outwaited."""
_WITH_OWN_MOUNTS = frozenset({Tier.BUBBLEWRAP, Tier.NAMESPACES})
_WITH_OWN_NETWORK = frozenset({Tier.BUBBLEWRAP, Tier.NAMESPACES, Tier.DOCKER})


@dataclass(frozen=True, slots=True)
class Launched:
    """A warden that was started and waits for its first frame."""

    process: subprocess.Popen[bytes]
    line: Line
    runs: RunSetup
    setup: Mapping[str, object]
    first_process: int | None = None
    """The warden's pid on this machine, where it can be put into a control group."""
    on_close: Callable[[], None] | None = None
    """Called once, after the box is closed."""


Launch = Callable[[Spec], Launched]


class BoxSandbox(Closing):
    def __init__(self, tier: Tier, launch: Launch) -> None:
        self.tier = tier
        self.on_connection: OnConnection = tell_nobody
        """Told of each host that code inside wanted to reach."""
        self._launch = launch
        self._door: Door | None = None
        self._spec: Spec | None = None
        self._box: Box | None = None
        self._lost = False
        self._group: Cgroup | None = None
        self._memory: MemoryWatch | None = None
        self._covered: tuple[Identities, Identities] = (), ()
        self._covers: CoverWatch | None = None
        self._uncovered = False
        self._on_close: Callable[[], None] | None = None
        self._opening = threading.Lock()

    def start(self, spec: Spec) -> None:
        if spec.allowed_hosts and self.tier in _WITH_OWN_NETWORK:
            self._door = Door.open(spec.allowed_hosts, self._tell_connection)
            mount = Mount(self._door.folder, target=guest_layout.NETWORK)
            spec = replace(spec, mounts=(*spec.mounts, mount))
        if spec.broker and self.tier in _WITH_OWN_NETWORK:  # elsewhere files lie where they lie
            spec = replace(spec, mounts=(*spec.mounts, Mount(spec.broker, target=guest_layout.BROKER)))
        self._spec = spec
        self._open()

    def run(self, request: Request, sink: Sink, cancelled: threading.Event) -> Outcome:
        for _ in range(_MOST_BOXES):
            box, is_replaced = self._open()
            try:
                return self._run(box, request, sink, cancelled, is_replaced=is_replaced)
            except Unreached:
                self._give_up(box)
        return lost()

    def _run(
        self, box: Box, request: Request, sink: Sink, cancelled: threading.Event, *, is_replaced: bool
    ) -> Outcome:
        covers, memory = self._covers, self._memory
        with self._disk_watch() as disk, covers.awake() if covers else contextlib.nullcontext():

            def watch() -> str | None:
                if memory is not None:
                    memory.check()
                return disk.check()

            changes = self._changes(request)
            outcome = box.run(request, sink, cancelled, watch, changes)
        if outcome.ending is Ending.LOST and changes is not None:
            changes.lose()
        if outcome.ending is Ending.LOST and self._uncovered:
            outcome = replace(outcome, ending=Ending.UNCOVERED)
        group = self._group
        if outcome.exit_code == _KILLED and group is not None and group.was_out_of_memory():
            outcome = replace(outcome, ending=Ending.MEMORY)
        if outcome.exit_code == _KILLED and memory is not None and memory.has_ended_some():
            outcome = replace(outcome, ending=Ending.MEMORY)
        if group is not None and group.was_out_of_processes():
            outcome = replace(outcome, lacked_processes=True)
        if not box.is_up:
            self._give_up(box)
        return replace(outcome, sandbox_is_new=is_replaced)

    def _changes(self, request: Request) -> RecordedChanges | None:
        spec = self._spec
        if spec is None or request.changes is None or not spec.records_changes:
            return None
        return RecordedChanges(spec, request.changes)

    def drop_session(self, name: str) -> bool:
        box = self._box
        return box is not None and box.drop_session(name)

    def covers_hold(self) -> bool:
        spec = self._spec
        return spec is not None and (identities(spec), special_identities(spec)) == self._covered

    def close(self) -> None:
        with self._opening:
            self._spec = None
            self._close_box()
            door, self._door = self._door, None
            if door is not None:
                door.close()

    def _tell_connection(self, host: str, port: int, allowed: bool) -> None:
        self.on_connection(host, port, allowed)

    def _watch_covers(self, box: Box, spec: Spec, covered: Identities) -> None:
        def end() -> None:
            """A cover that is gone is open to every process inside, so that all of them end."""
            self._uncovered = True
            box.kill()

        self._uncovered = False
        is_watched = bool(covered) and self.tier is not Tier.NONE  # where nothing is closed, nothing can come open
        self._covers = CoverWatch(lambda: identities(spec) == covered, end) if is_watched else None

    @contextlib.contextmanager
    def _disk_watch(self) -> Generator[DiskWatch]:
        spec, group = self._spec, self._group
        if spec is None:
            raise _closed()
        beside = [mount for mount in spec.mounts if not is_beneath(mount.source, spec.workspace)]
        folders = [spec.workspace] if spec.writable else []
        folders += [mount.source for mount in beside if mount.writable and os.path.isdir(mount.source)]
        watch = DiskWatch(
            folders,
            most_bytes=spec.limits.disk_bytes,
            most_files=_MOST_FILES,
            reserve_bytes=_KEPT_FREE_BYTES,
            processes=group.processes if group is not None else tuple,
        )
        try:
            try:
                watch.begin()
            except OSError as error:
                message = f"{error.filename} cannot be looked at: {error.strerror}."
                raise SystemFault(message, hint="Look whether the workspace is still there.") from error
            yield watch
        finally:
            watch.close()

    def _open(self) -> tuple[Box, bool]:
        """The box, and whether it had to be replaced just now."""
        box = self._box
        if box is not None and box.is_up:
            return box, False
        with self._opening:
            if self._spec is None:
                raise _closed()
            if self._box is not None and self._box.is_up:
                return self._box, False
            lost = self._lost or self._box is not None
            self._close_box()
            self._covered = identities(self._spec), special_identities(self._spec)
            box = self._launched(self._spec)
            self._watch_covers(box, self._spec, self._covered[0])
            self._box, self._lost = box, False  # last: from here on others run in it
            return box, lost

    def _give_up(self, box: Box) -> None:
        """End what may still run in a lost box: perhaps it only does not answer. The next run gets another."""
        with self._opening:
            if self._box is not box:
                return
            if self.tier in _WITH_OWN_MOUNTS:  # and so its own processes; without, the warden has to end them itself
                box.kill()
            self._close_box()
            self._lost = True

    def _launched(self, spec: Spec) -> Box:
        # Whatever a link leads to would be shown inside, and written, as if it were the workspace.
        for path in (spec.workspace, *(mount.source for mount in spec.mounts), *spec.hidden, *spec.special):
            os.close(open_plain(path))
        launched = self._launch(spec)
        box = Box(launched.process, launched.line, launched.runs, launched.first_process)
        with contextlib.ExitStack() as undo:
            self._on_close = launched.on_close
            undo.callback(self._close_group)
            undo.callback(box.close)
            if launched.first_process is not None:
                # The warden runs nothing before its first frame, so all that follows is in the group with it.
                self._group = Cgroup.create(
                    memory_bytes=spec.limits.memory_bytes, processes=spec.limits.processes, name="box"
                )
                if self._group is not None:
                    self._put(launched, self._group)
                if self._group is None or "memory" not in self._group.limits_held:
                    self._memory = MemoryWatch(launched.first_process, spec.limits.memory_bytes)
            forward = f"{guest_layout.NETWORK}/{SOCKET_NAME}" if self._door else ""
            mounted = self.tier in _WITH_OWN_MOUNTS
            covered = [*spec.hidden, *spec.special]
            checked = {"shown": placed(spec) if mounted else [], "hidden": covered if mounted else []}
            network = {"forward": forward, "forward_port": guest_layout.PROXY_PORT}
            box.set_up({**launched.setup, **checked, **recording_setup(spec), **network})
            undo.pop_all()
        return box

    @staticmethod
    def _put(launched: Launched, group: Cgroup) -> None:
        try:
            first = launched.first_process or 0
            group.add(first)
            for child in _children(first):  # the one worker it may have forked before it was in the group
                group.add(child)
        except SystemFault:
            with contextlib.suppress(subprocess.TimeoutExpired):
                launched.process.wait(_GONE_SECONDS)
                return  # it failed to start, and the next step tells why
            raise

    def _close_box(self) -> None:
        covers, self._covers = self._covers, None
        if covers is not None:
            covers.close()
        box, self._box = self._box, None
        if box is not None:
            box.close()
        self._close_group()

    def _close_group(self) -> None:
        group, self._group, self._memory = self._group, None, None
        if group is not None:
            group.close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _closed() -> SystemFault:
    return SystemFault("The sandbox is closed.", hint="Open the workspace again.")
