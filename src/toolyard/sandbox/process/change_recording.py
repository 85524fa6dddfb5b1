"""The host side of recording what runs change: the setup for the supervisor, and reading its frames.

Paths inside are translated into host paths by the mounts of the SandboxSpec. The host bounds what a sandbox sends:
past the bound the run counts as one that may have changed anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from toolyard.core.limits import MIB
from toolyard.linux import change_filter
from toolyard.sandbox.spec import ChangedPath, ChangeSink, SandboxSpec
from toolyard_runtime import protocol

_MOST_BYTES = 64 * MIB
"""For the frames of one run: room for every path that a recorder reports, including repeated ones."""


def recording_setup(spec: SandboxSpec) -> dict[str, object]:
    """Returns the recording part of the supervisor's first frame; empty if changes cannot or need not be recorded."""
    if not spec.records_changes or change_filter.unsupported_reason():
        return {}
    calls = {
        number: [path.as_tuple() for path in paths]
        for number, paths in change_filter.changed_path_arguments().items()
    }
    roots = [inside for inside, _ in _writable_mounts(spec)]
    program, number = change_filter.build_program(), change_filter.seccomp_syscall_number()
    return {"recording": {"filter": program, "seccomp": number, "calls": calls, "roots": roots}}


@dataclass(slots=True)
class ChangeFrameReader:
    """Reads the change frames of one run and forwards them to its sink."""

    spec: SandboxSpec
    sink: ChangeSink
    bytes_left: int = _MOST_BYTES

    def handle_frame(self, kind: int, body: bytes) -> None:
        """Handles a CHANGES or RECORDED frame."""
        if self.bytes_left < 0:
            return
        if kind == protocol.RECORDED:
            self.sink.report_coverage(is_complete=body == protocol.COMPLETE)
            return
        self.bytes_left -= len(body)
        if self.bytes_left < 0:
            self.mark_incomplete()
        elif found := list(self._host_paths(body)):
            self.sink.add_changes(found)

    def mark_incomplete(self) -> None:
        """Stops reading changes and reports the record as incomplete."""
        self.bytes_left = -1
        self.sink.report_coverage(is_complete=False)

    def _host_paths(self, body: bytes) -> Iterator[ChangedPath]:
        mounts = [(os.fsencode(inside), os.fsencode(source)) for inside, source in _writable_mounts(self.spec)]
        mounts.sort(key=lambda mount: len(mount[0]), reverse=True)
        at = 0
        while at + protocol.CHANGE_HEADER.size <= len(body):
            time_ns, is_tree, length = protocol.CHANGE_HEADER.unpack_from(body, at)
            at += protocol.CHANGE_HEADER.size
            path = body[at : at + length]
            at += length
            for inside, source in mounts:
                if path == inside or path.startswith(inside + b"/"):
                    yield ChangedPath(source + path[len(inside) :], bool(is_tree), time_ns)
                    break


def _writable_mounts(spec: SandboxSpec) -> Iterator[tuple[str, str]]:
    """Yields each folder that runs may change: its path inside, and on the host."""
    if spec.writable:
        yield spec.workspace, spec.workspace
    yield from ((mount.inside, mount.source) for mount in spec.mounts if mount.writable)
