"""The seccomp filter that reports which paths a process and its children change.

`program()` returns a user notification for each call that creates, changes or removes a file by its path, before the
kernel does it; everything else passes. It restricts nothing. The holder of the listener reads the paths (`paths()`
says where they are) and lets the call continue. A file that is opened for reading costs a few instructions and no
notification. Changes through a descriptor were announced when it was opened for writing; `fchmod` needs no such
descriptor and is announced by itself.

Owners, times and extended attributes are left out: no snapshot holds them.
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
    assembled,
)
from toolyard.linux.libc import LIBC
from toolyard.linux.seccomp import SYS_SECCOMP
from toolyard.linux.syscall_numbers import Numbers

_OLDEST_KERNEL = (5, 8)
"""A call can be let through since 5.5, and since 5.8 a listener gets POLLHUP when its last process has exited."""
_GET_ACTION_AVAIL = 2
_CHANGING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class How(StrEnum):
    """What a call does with a path. `toolyard_runtime.changed_paths` knows these words too."""

    ENTRY = "entry"
    """Makes or removes the name itself: a link in its place is not followed."""
    TARGET = "target"
    """Changes what the name leads to."""
    MOVED = "moved"
    """Moves what has the name, with everything beneath it."""
    OPENED = "opened"
    """Opens it; flags in an argument say whether a link is followed."""
    OPENED_HOW = "opened-how"
    """The same with `struct open_how` in memory."""
    HELD = "held"
    """Changes what a descriptor leads to."""
    UNSEEN = "unseen"
    """Makes other calls possible that no filter sees."""


@dataclass(frozen=True, slots=True)
class NamedPath:
    """One path of a call, by the numbers of its arguments; -1 where there is none."""

    how: How
    path: int = -1
    folder: int = -1
    """The descriptor that a relative path starts from; -1 for the working folder."""
    flags: int = -1

    def worded(self) -> tuple[str, int, int, int]:
        """As the warden's first frame carries it."""
        return self.how.value, self.path, self.folder, self.flags


@dataclass(frozen=True, slots=True)
class _Call:
    numbers: Numbers
    paths: tuple[NamedPath, ...]
    flags: int = -1
    """The argument that has to have one of the changing flags; -1 for a call that always counts."""


def _call(x86_64: int | None, aarch64: int | None, *paths: NamedPath, flags: int = -1) -> _Call:
    return _Call(Numbers(x86_64, aarch64), paths, flags)


_CALLS: dict[str, _Call] = {
    "openat": _call(257, 56, NamedPath(How.OPENED, 1, 0, flags=2), flags=2),
    "open": _call(2, None, NamedPath(How.OPENED, 0, flags=1), flags=1),
    "openat2": _call(437, 437, NamedPath(How.OPENED_HOW, 1, 0, flags=2)),
    "creat": _call(85, None, NamedPath(How.TARGET, 0)),
    "truncate": _call(76, 45, NamedPath(How.TARGET, 0)),
    "unlink": _call(87, None, NamedPath(How.ENTRY, 0)),
    "unlinkat": _call(263, 35, NamedPath(How.ENTRY, 1, 0)),
    "rmdir": _call(84, None, NamedPath(How.ENTRY, 0)),
    "mkdir": _call(83, None, NamedPath(How.ENTRY, 0)),
    "mkdirat": _call(258, 34, NamedPath(How.ENTRY, 1, 0)),
    "rename": _call(82, None, NamedPath(How.MOVED, 0), NamedPath(How.MOVED, 1)),
    "renameat": _call(264, 38, NamedPath(How.MOVED, 1, 0), NamedPath(How.MOVED, 3, 2)),
    "renameat2": _call(316, 276, NamedPath(How.MOVED, 1, 0), NamedPath(How.MOVED, 3, 2)),
    "link": _call(86, None, NamedPath(How.ENTRY, 1)),
    "linkat": _call(265, 37, NamedPath(How.ENTRY, 3, 2)),
    "symlink": _call(88, None, NamedPath(How.ENTRY, 1)),
    "symlinkat": _call(266, 36, NamedPath(How.ENTRY, 2, 1)),
    "mknod": _call(133, None, NamedPath(How.ENTRY, 0)),
    "mknodat": _call(259, 33, NamedPath(How.ENTRY, 1, 0)),
    "chmod": _call(90, None, NamedPath(How.TARGET, 0)),
    "fchmod": _call(91, 52, NamedPath(How.HELD, folder=0)),
    "fchmodat": _call(268, 53, NamedPath(How.TARGET, 1, 0)),
    "fchmodat2": _call(452, 452, NamedPath(How.TARGET, 1, 0)),
    # Both are refused in every sandbox, and so matter only where there is none.
    "io_uring_setup": _call(425, 425, NamedPath(How.UNSEEN)),
    "open_by_handle_at": _call(304, 265, NamedPath(How.UNSEEN)),
}


def program(machine: str | None = None) -> bytes:
    """The filter for `machine` (as uname names it; by default this one). Raises OSError for one it does not know."""
    architecture = architecture_of(machine)
    if architecture is None:
        raise OSError(errno.ENOSYS, f"no seccomp filter is known for {machine or platform.machine()}")
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (IF_EQUAL, 1, 0, architecture.audit),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, NUMBER_AT),
        (IF_AT_LEAST, 0, 1, X32_BIT),
        (RETURN, 0, 0, ALLOW),
    ]
    for call in _CALLS.values():
        number = architecture.number(call.numbers)
        if number is None:
            continue
        body: list[Instruction] = [(RETURN, 0, 0, USER_NOTIFICATION)]
        if call.flags >= 0:
            tested = (LOAD, 0, 0, ARGUMENTS_AT + ARGUMENT_SIZE * call.flags)
            body = [tested, (IF_ANY_BIT, 0, 1, _CHANGING_FLAGS), *body, (RETURN, 0, 0, ALLOW)]
        code += [(IF_EQUAL, 0, len(body), number), *body]
    code.append((RETURN, 0, 0, ALLOW))
    return assembled(code)


def paths(machine: str | None = None) -> dict[int, tuple[NamedPath, ...]]:
    """For each call that is announced, by its number, the paths that it changes."""
    architecture = architecture_of(machine)
    if architecture is None:
        return {}
    numbered = ((architecture.number(call.numbers), call.paths) for call in _CALLS.values())
    return {number: named for number, named in numbered if number is not None}


def seccomp_number() -> int:
    """The number of seccomp(2) on this machine; -1 where no filter is known for it."""
    architecture = architecture_of(None)
    return -1 if architecture is None else architecture.number(SYS_SECCOMP) or -1


@cache
def why_not() -> str:
    """Why this machine cannot announce changes; empty where it can, unless a filter outside of us listens already."""
    if architecture_of(None) is None:
        return f"no seccomp filter is known for {platform.machine()}"
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    if found is None or (int(found[1]), int(found[2])) < _OLDEST_KERNEL:
        return f"Linux {platform.release()} is too old, 5.8 is needed"
    action = ctypes.c_uint32(USER_NOTIFICATION)
    answer: int = LIBC.syscall(
        seccomp_number(), ctypes.c_uint(_GET_ACTION_AVAIL), ctypes.c_uint(0), ctypes.byref(action)
    )
    return "" if answer == 0 else "the kernel has no seccomp user notification"
