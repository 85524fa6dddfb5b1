"""The seccomp filter that reports which paths a process and its children change.

`build_program()` returns a filter that sends a user notification for each call that creates, changes or removes a
file by its path, before the kernel executes it; every other call passes. The filter restricts nothing. The holder of
the listener reads the paths (`changed_path_arguments()` says which arguments hold them) and lets the call continue.
Opening a file for reading costs a few instructions and no notification. Changes through a descriptor were reported
when it was opened for writing; `fchmod` needs no such descriptor and is reported by itself.

Owners, timestamps and extended attributes are not reported: snapshots do not store them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from toolyard.linux.bpf import (
    ALLOW,
    ARCHITECTURE_AT,
    ARGUMENT_SIZE,
    ARGUMENTS_AT,
    IF_ANY_BIT,
    IF_AT_LEAST,
    IF_EQUAL,
    LOAD,
    NUMBER_AT,
    RETURN,
    USER_NOTIFICATION,
    X32_BIT,
    Instruction,
    architecture_of,
    assemble,
)
from toolyard.linux.libc import LIBC
from toolyard.linux.seccomp import SYS_SECCOMP
from toolyard.linux.syscall_numbers import SyscallNumbers

_OLDEST_KERNEL = (5, 8)
"""Linux 5.5 can continue a notified call. Since 5.8 a listener gets POLLHUP when its last process has exited."""
_GET_ACTION_AVAIL = 2
_CHANGING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class PathEffect(StrEnum):
    """What a call does with a path. `toolyard_runtime.changed_paths` uses the same values."""

    ENTRY = "entry"
    """Creates or removes the name itself: a link in its place is not followed."""
    TARGET = "target"
    """Changes the file that the name leads to."""
    MOVED = "moved"
    """Moves the named object, with everything beneath it."""
    OPENED = "opened"
    """Opens it; flags in an argument say whether a link is followed."""
    OPENED_HOW = "opened-how"
    """As OPENED, with the flags in a `struct open_how` in memory."""
    DESCRIPTOR = "held"
    """Changes the file that a descriptor refers to."""
    UNOBSERVABLE = "unseen"
    """Enables further calls that no filter sees."""


@dataclass(frozen=True, slots=True)
class PathArgument:
    """One path of a call, by the positions of its arguments; -1 for none."""

    effect: PathEffect
    path: int = -1
    folder: int = -1
    """The descriptor that a relative path starts from; -1 for the working directory."""
    flags: int = -1

    def as_tuple(self) -> tuple[str, int, int, int]:
        """Returns it in the form that the supervisor's first frame carries."""
        return self.effect.value, self.path, self.folder, self.flags


@dataclass(frozen=True, slots=True)
class _WatchedCall:
    numbers: SyscallNumbers
    paths: tuple[PathArgument, ...]
    flags: int = -1
    """The argument that must contain a changing flag; -1 for a call that always counts."""


def _watched_call(x86_64: int | None, aarch64: int | None, *paths: PathArgument, flags: int = -1) -> _WatchedCall:
    return _WatchedCall(SyscallNumbers(x86_64, aarch64), paths, flags)


_CALLS: dict[str, _WatchedCall] = {
    "openat": _watched_call(257, 56, PathArgument(PathEffect.OPENED, 1, 0, flags=2), flags=2),
    "open": _watched_call(2, None, PathArgument(PathEffect.OPENED, 0, flags=1), flags=1),
    "openat2": _watched_call(437, 437, PathArgument(PathEffect.OPENED_HOW, 1, 0, flags=2)),
    "creat": _watched_call(85, None, PathArgument(PathEffect.TARGET, 0)),
    "truncate": _watched_call(76, 45, PathArgument(PathEffect.TARGET, 0)),
    "unlink": _watched_call(87, None, PathArgument(PathEffect.ENTRY, 0)),
    "unlinkat": _watched_call(263, 35, PathArgument(PathEffect.ENTRY, 1, 0)),
    "rmdir": _watched_call(84, None, PathArgument(PathEffect.ENTRY, 0)),
    "mkdir": _watched_call(83, None, PathArgument(PathEffect.ENTRY, 0)),
    "mkdirat": _watched_call(258, 34, PathArgument(PathEffect.ENTRY, 1, 0)),
    "rename": _watched_call(82, None, PathArgument(PathEffect.MOVED, 0), PathArgument(PathEffect.MOVED, 1)),
    "renameat": _watched_call(264, 38, PathArgument(PathEffect.MOVED, 1, 0), PathArgument(PathEffect.MOVED, 3, 2)),
    "renameat2": _watched_call(316, 276, PathArgument(PathEffect.MOVED, 1, 0), PathArgument(PathEffect.MOVED, 3, 2)),
    "link": _watched_call(86, None, PathArgument(PathEffect.ENTRY, 1)),
    "linkat": _watched_call(265, 37, PathArgument(PathEffect.ENTRY, 3, 2)),
    "symlink": _watched_call(88, None, PathArgument(PathEffect.ENTRY, 1)),
    "symlinkat": _watched_call(266, 36, PathArgument(PathEffect.ENTRY, 2, 1)),
    "mknod": _watched_call(133, None, PathArgument(PathEffect.ENTRY, 0)),
    "mknodat": _watched_call(259, 33, PathArgument(PathEffect.ENTRY, 1, 0)),
    "chmod": _watched_call(90, None, PathArgument(PathEffect.TARGET, 0)),
    "fchmod": _watched_call(91, 52, PathArgument(PathEffect.DESCRIPTOR, folder=0)),
    "fchmodat": _watched_call(268, 53, PathArgument(PathEffect.TARGET, 1, 0)),
    "fchmodat2": _watched_call(452, 452, PathArgument(PathEffect.TARGET, 1, 0)),
    # Every sandbox refuses both, so they matter only for unsandboxed runs.
    "io_uring_setup": _watched_call(425, 425, PathArgument(PathEffect.UNOBSERVABLE)),
    "open_by_handle_at": _watched_call(304, 265, PathArgument(PathEffect.UNOBSERVABLE)),
}


def build_program(machine: str | None = None) -> bytes:
    """Builds the filter for `machine` (its uname; by default this one). Raises OSError for an unknown machine."""
    architecture = architecture_of(machine)
    if architecture is None:
        raise OSError(errno.ENOSYS, f"no seccomp filter is known for {machine or platform.machine()}")
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (IF_EQUAL, 1, 0, architecture.audit_arch),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, NUMBER_AT),
        (IF_AT_LEAST, 0, 1, X32_BIT),
        (RETURN, 0, 0, ALLOW),
    ]
    for call in _CALLS.values():
        number = architecture.syscall_number(call.numbers)
        if number is None:
            continue
        body: list[Instruction] = [(RETURN, 0, 0, USER_NOTIFICATION)]
        if call.flags >= 0:
            tested = (LOAD, 0, 0, ARGUMENTS_AT + ARGUMENT_SIZE * call.flags)
            body = [tested, (IF_ANY_BIT, 0, 1, _CHANGING_FLAGS), *body, (RETURN, 0, 0, ALLOW)]
        code += [(IF_EQUAL, 0, len(body), number), *body]
    code.append((RETURN, 0, 0, ALLOW))
    return assemble(code)


def changed_path_arguments(machine: str | None = None) -> dict[int, tuple[PathArgument, ...]]:
    """Returns the paths that each reported call changes, by the call's number."""
    architecture = architecture_of(machine)
    if architecture is None:
        return {}
    numbered = ((architecture.syscall_number(call.numbers), call.paths) for call in _CALLS.values())
    return {number: named for number, named in numbered if number is not None}


def seccomp_syscall_number() -> int:
    """Returns the number of seccomp(2) on this machine; -1 if it is unknown."""
    architecture = architecture_of(None)
    return -1 if architecture is None else architecture.syscall_number(SYS_SECCOMP) or -1


@cache
def unsupported_reason() -> str:
    """Returns why this machine cannot report changes; empty if it can, unless an outer filter already listens."""
    if architecture_of(None) is None:
        return f"no seccomp filter is known for {platform.machine()}"
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    if found is None or (int(found[1]), int(found[2])) < _OLDEST_KERNEL:
        return f"Linux {platform.release()} is too old, 5.8 is needed"
    action = ctypes.c_uint32(USER_NOTIFICATION)
    answer: int = LIBC.syscall(
        seccomp_syscall_number(), ctypes.c_uint(_GET_ACTION_AVAIL), ctypes.c_uint(0), ctypes.byref(action)
    )
    return "" if answer == 0 else "the kernel has no seccomp user notification"
