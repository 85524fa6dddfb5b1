"""The supervisor's record of what one run changes: answers its listener, collects paths, returns them in batches.

Contract: it owns the listener until `close()`. It lets every notified call continue, whatever happens to the record,
because the caller waits. It runs in the supervisor, which no process inside can signal or inspect: if it exited, the
kernel would fail the pending calls. The collection is bounded. Past a number of paths only their folders are
recorded, and past a number of folders the record is marked incomplete: the run may then have changed anything.
"""

from __future__ import annotations

import fcntl
import os
from _struct import Struct
from time import monotonic, time_ns

from toolyard_runtime import protocol
from toolyard_runtime.changed_paths import UnobservableChange, real_paths, requested_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolyard_runtime.messages import Recording

BATCH_SECONDS, REPEAT_SECONDS = 0.05, 1.0
"""How long a path may wait for others before all are reported; and a path that was reported before."""
MOST_PATHS, MOST_BYTES, MOST_FOLDERS = 100_000, 16 * 1024 * 1024, 1_000
_MOST_REMEMBERED = 256
"""Folders whose real paths are cached during a batch: a caller can spell one in any number of ways."""
_BATCH_BYTES = 512 * 1024

_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_SYNCHRONOUS_WAKE_UP = 1
_CONTINUE = 1
_CREATING_EFFECTS = frozenset({"opened", "opened-how"})
"""Calls that remove nothing, so the caller need not wait until their paths are resolved."""
_NOTIFICATION = Struct("=QIIiIQ6Q")  # struct seccomp_notif: id, pid, flags, then the call's number and arguments
_RESPONSE = Struct("=QqiI")
_EMPTY_NOTIFICATION = bytes(_NOTIFICATION.size)


class ChangeRecorder:
    """Records the changes of one run."""

    def __init__(self, listener: int, recording: Recording) -> None:
        self.listener = listener
        self.is_complete = True
        self._calls = recording["calls"]
        self._roots = tuple(os.fsencode(root.rstrip("/")) + b"/" for root in recording["roots"])
        self._folders: dict[bytes, bytes] = {}
        self._forget_at = 0.0
        self._reported_ns: dict[bytes, int] = {}  # reported paths, and when they changed
        self._bytes = 0
        self._trees: set[bytes] = set()
        self._new: dict[bytes, tuple[int, bool]] = {}
        self._repeated: dict[bytes, tuple[int, bool]] = {}
        _set_synchronous_wakeup(listener)

    @property
    def seconds_until_due(self) -> float:
        """The time until the collected paths should be reported."""
        if self._new:
            return BATCH_SECONDS
        return REPEAT_SECONDS if self._repeated else float("inf")

    def answer_notification(self) -> None:
        """Answers one waiting call."""
        try:
            received = fcntl.ioctl(self.listener, _RECEIVE, _EMPTY_NOTIFICATION)
        except OSError:  # its process has just been killed
            return
        notification = _NOTIFICATION.unpack(received)
        named = self._calls.get(notification[3])
        found: list[tuple[bytes, bytes, bool]] = []
        how = named[0][0] if named else ""
        try:
            if named:
                found = requested_paths(notification[1], named, notification[6:])
        except UnobservableChange:
            self.is_complete = False
        if how not in _CREATING_EFFECTS:  # afterwards the named file may be gone
            self._record(found, are_moved=how == "moved")
        try:
            fcntl.ioctl(self.listener, _SEND, _RESPONSE.pack(notification[0], 0, 0, _CONTINUE))
        except OSError:  # the caller was killed
            return
        if how in _CREATING_EFFECTS:
            self._record(found, are_moved=False)

    def pop_frame_bodies(self, *, is_final: bool = False) -> list[bytes]:
        """Returns the paths that were not reported yet, as frame bodies. `is_final`: the run is over."""
        self._folders.clear()
        now = time_ns()
        for path, touch in tuple(self._repeated.items()):
            if is_final or now - self._reported_ns.get(path, 0) >= REPEAT_SECONDS * 1e9:
                del self._repeated[path]
                self._new[path] = touch
        bodies: list[bytes] = []
        body = bytearray()
        for path, (changed_ns, is_tree) in self._new.items():
            body += protocol.CHANGE_HEADER.pack(changed_ns, is_tree, len(path)) + path
            self._reported_ns[path] = changed_ns
            if len(body) >= _BATCH_BYTES:
                bodies.append(bytes(body))
                body.clear()
        self._new.clear()
        return [*bodies, bytes(body)] if body else bodies

    def close(self) -> None:
        os.close(self.listener)

    def _record(self, requested: list[tuple[bytes, bytes, bool]], *, are_moved: bool) -> None:
        if len(self._folders) >= _MOST_REMEMBERED or monotonic() >= self._forget_at:
            self._folders.clear()
            self._forget_at = monotonic() + BATCH_SECONDS
        try:
            for path, is_tree in real_paths(requested, self._folders, are_moved=are_moved):
                if path.startswith(self._roots):
                    self._add_path(path, is_tree=is_tree)
        except Exception:  # noqa: BLE001 - whatever fails, the calling process still waits for an answer
            self.is_complete = False

    def _add_path(self, path: bytes, *, is_tree: bool) -> None:
        touch = (time_ns(), is_tree)
        if path in self._new:
            self._new[path] = (touch[0], is_tree or self._new[path][1])
        elif path in self._reported_ns:
            self._repeated[path] = touch
        elif len(self._reported_ns) + len(self._new) < MOST_PATHS and self._bytes + len(path) < MOST_BYTES:
            self._bytes += len(path)
            self._new[path] = touch
        else:
            self._add_folder(path.rpartition(b"/")[0], touch[0])

    def _add_folder(self, path: bytes, changed_ns: int) -> None:
        if path not in self._trees and len(self._trees) >= MOST_FOLDERS:
            self.is_complete = False
            return
        self._trees.add(path)
        (self._repeated if path in self._reported_ns else self._new)[path] = (changed_ns, True)


def _set_synchronous_wakeup(listener: int) -> None:
    """Makes the kernel wake callers and us on the same processor, which is faster."""
    try:
        fcntl.ioctl(listener, _SET_FLAGS, _SYNCHRONOUS_WAKE_UP)
    except OSError:  # before Linux 6.6
        return
