"""The weak tier for machines without namespaces: Landlock and seccomp around each run.

Runs see the host's files at their own paths, but can read only the system, the interpreter and what the spec names,
and change only what it allows. They cannot create sockets, cannot signal other processes, and have no /proc. The
restrictions are applied in each worker and not in the supervisor, so that Landlock's scope keeps runs from signalling
the supervisor.

The tier counts as weak because some things stay open: the existence and names of files (stat), changing the mode and
times of the user's own files anywhere, and processor time and memory shared with the user's other programs.

Landlock rules only add rights to a folder and everything beneath it. If a part has fewer rights than the folder
around it, that folder and those in between lose the rights that the part must not have: nothing new can be created
directly in them. Their existing content keeps its own rights.

Each sandbox owns a private folder for temporary files and HOME. It is removed when the sandbox is closed, and by the
supervisor if the host is gone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from toolyard.core.errors import SystemFault
from toolyard.core.paths import is_beneath
from toolyard.linux import landlock, seccomp
from toolyard.sandbox import guest_layout, mount_plan
from toolyard.sandbox.backends.unsandboxed import start_supervisor, temp_folder_variables
from toolyard.sandbox.guest_layout import Restrictions
from toolyard.sandbox.process.sandbox import LaunchedSupervisor, ProcessSandbox
from toolyard.sandbox.spec import SandboxSpec, Tier
from toolyard.storage.temp_folders import TemporaryFolder

_MIN_ABI = 6
"""Signals are scoped from this ABI on; below it a run could end the supervisor and the server."""
_HOST_FILES = (*guest_layout.ETC_FILES, "/dev/random", "/dev/urandom")
_HOST_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_HINT = "Run `toolyard doctor` to see what this machine offers."


class _Right(IntEnum):
    NONE = 0
    READ = 1
    CHANGE = 2


@dataclass(frozen=True, slots=True)
class _Grants:
    """Rights by path, in the order of the spec: the last one that covers a path applies."""

    grants: tuple[tuple[str, _Right], ...]

    def right_at(self, path: str) -> _Right:
        return next((right for place, right in reversed(self.grants) if is_beneath(path, place)), _Right.NONE)

    def paths_beneath(self, path: str) -> set[str]:
        return {place for place, _ in self.grants if place != path and is_beneath(place, path)}

    def rules(self) -> Iterator[tuple[str, _Right, bool]]:
        """Yields what to allow: a path, its right, and whether only the folder may be listed."""
        for place in dict.fromkeys(place for place, _ in self.grants):
            yield from self._rules_below(place)

    def _rules_below(self, path: str) -> Iterator[tuple[str, _Right, bool]]:
        right = self.right_at(path)
        if right is _Right.NONE or os.path.islink(path):  # a rule for a link would apply to its target
            return
        lowest = min((self.right_at(place) for place in self.paths_beneath(path)), default=right)
        if lowest >= right:
            yield path, right, False
            return
        yield path, lowest, lowest is _Right.NONE
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                yield from self._rules_below(entry.path)


def unsupported_reason() -> str:
    """Returns why this machine does not support this tier; empty if it does."""
    if landlock.abi_version() < _MIN_ABI:
        return f"Landlock is at level {landlock.abi_version()} here, and {_MIN_ABI} (Linux 6.12) is needed"
    if not seccomp.is_available():
        return "the kernel does not support seccomp filters"
    return ""


def landlock_sandbox() -> ProcessSandbox:
    """Creates a sandbox of this tier, not started."""
    return ProcessSandbox(Tier.LANDLOCK, _launch)


def _launch(spec: SandboxSpec) -> LaunchedSupervisor:
    if reason := unsupported_reason():
        raise SystemFault(f"The sandbox did not start: {reason}.", hint=_HINT)
    with contextlib.ExitStack() as undo:
        temp_folder = undo.enter_context(TemporaryFolder("box"))
        private = temp_folder.path
        home, temporary_files = f"{private}/home", f"{private}/temporary"
        for folder in (home, temporary_files):
            os.mkdir(folder, 0o700)
        setup = _restrictions(spec, private).setup_fields(pid_max=0, in_worker=True)
        changed = {"HOME": home, **temp_folder_variables(temporary_files)}
        # Code may not connect to anything, so each worker connects to the broker before its restrictions apply.
        hand = f"{spec.broker}/{guest_layout.BROKER_FD_SOCKET}" if spec.broker else ""
        setup |= {"scratch": private, "hand": hand, "hand_at": guest_layout.BROKER_DESCRIPTOR}
        launched = start_supervisor(
            spec, changed, setup, temp_folder.close, address=f"fd:{guest_layout.BROKER_DESCRIPTOR}"
        )
        undo.pop_all()
        return launched


def _restrictions(spec: SandboxSpec, private: str) -> Restrictions:
    system = (*mount_plan.SYSTEM_FOLDERS, *mount_plan.SYSTEM_FILES, *_HOST_FILES)
    readable = {os.path.realpath(path) for path in system if os.path.exists(path)}
    writable = {private, *(path for path in _HOST_DEVICES if os.path.exists(path))}
    listed: set[str] = set()
    for path, right, is_listing in _grants(spec).rules():
        (listed if is_listing else writable if right is _Right.CHANGE else readable).add(path)
    restrictions = Restrictions.build(iter(sorted(writable)), readable=tuple(sorted(readable)), own_network=False)
    listing = tuple((path, landlock.READ_FOLDER, 0) for path in sorted(listed))
    return Restrictions(restrictions.landlock, (*restrictions.landlock_rules, *listing), restrictions.seccomp)


def _grants(spec: SandboxSpec) -> _Grants:
    given = [(spec.workspace, _Right.CHANGE if spec.writable else _Right.READ)]
    given += [(mount.source, _Right.CHANGE if mount.writable else _Right.READ) for mount in spec.mounts]
    given += [(path, _Right.READ) for path in guest_layout.own_interpreter().folders]
    given += [(path, _Right.READ) for path in guest_layout.runtime_folders()]
    given += [(path, _Right.NONE) for path in spec.hidden]
    return _Grants(tuple((os.path.realpath(path), right) for path, right in given))
