"""A process group that the kernel kills when this process ends, even when this process is killed.

Helper programs are started in that group, so there is no moment at which one runs unprotected. The group is kept
alive by one tiny program (`cat`), which waits on a pipe that is never written to. This process has the only writing
end. The kernel is asked to signal any event on that pipe, which can only be its end, to the group, with SIGKILL. This
adds no cost to a search. A parent-death signal would need a thread that lives as long as each program, and a wrapper
program to set it.

The `cat` is started with the first search and belongs to this process. Each program in the group inherits `pipe`, so
that the group stays protected if `cat` is killed; the next start makes a new group.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import threading
from dataclasses import dataclass

_HOLDER = "cat"


@dataclass(frozen=True, slots=True)
class DieWithParentGroup:
    """The group to start a program in, and the descriptor to pass to it."""

    group: int
    pipe: int
    owner: int

    def is_alive(self) -> bool:
        """Returns whether the group exists and is ours: a fork of this process needs its own."""
        if self.owner != os.getpid():
            return False
        with contextlib.suppress(ChildProcessError):
            return os.waitpid(self.group, os.WNOHANG)[0] == 0
        return False


_lock = threading.Lock()
_current_group: list[DieWithParentGroup] = []


def die_with_parent_group() -> DieWithParentGroup | None:
    """Returns the group of this process; None on a machine that cannot have one."""
    with _lock:
        if not _current_group or not _current_group[-1].is_alive():
            fresh = _start_group()
            if fresh is None:
                return None
            _current_group[:] = [fresh]
        return _current_group[-1]


def _start_group() -> DieWithParentGroup | None:
    holder = shutil.which(_HOLDER)
    if holder is None:
        return None
    theirs, ours = os.pipe()
    try:
        wires = [(os.POSIX_SPAWN_DUP2, theirs, 0)]
        wires += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
        group = os.posix_spawn(holder, [_HOLDER], {}, file_actions=wires, setpgroup=0)
        fcntl.fcntl(theirs, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(theirs, fcntl.F_SETOWN, -group)
        fcntl.fcntl(theirs, fcntl.F_SETFL, os.O_RDONLY | os.O_ASYNC)
    except OSError:
        os.close(ours)  # the holder, if it runs, reads the end of its input and exits
        os.close(theirs)
        return None
    return DieWithParentGroup(
        group, theirs, os.getpid()
    )  # `ours` stays open until this process ends; closing it triggers the signal
