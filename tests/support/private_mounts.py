"""Runs a program where it cannot destroy anything: everything but a tmpfs over /tmp is read-only.

`python -m tests.support.private_mounts PROGRAM [ARGUMENT...]` moves to a mount namespace of its own, makes every
mount read-only, covers /tmp and /dev/shm with an empty tmpfs, and runs PROGRAM there, in a process namespace of its
own. HOME, the state folder and TMPDIR of the program lie in that /tmp. When PROGRAM ends, or this process does
however that happens, the kernel ends what is left in there and removes the mounts. The exit code is PROGRAM's, or
UNAVAILABLE_EXIT where the machine does not allow such a place.

`require()` is for the tests themselves: it raises NotPrivateError unless this process really is in such a place,
whatever variables say.

Control groups and /proc stay as they are: sandboxes write to both, and neither holds files that could be deleted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from toolyard.linux import mount_namespace
from toolyard.linux.libc import LIBC, check_errno

TEMPORARY = "/tmp"
_SHARED_MEMORY = "/dev/shm"
_PRIVATE = (TEMPORARY, _SHARED_MEMORY)
_TMPFS_OPTIONS = b"mode=1777,size=50%"
_OF_THE_KERNEL = frozenset({"proc", "cgroup", "cgroup2"})
_SYS_MOUNT_SETATTR = 442  # the same on every architecture
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_READ_ONLY = 1
_USAGE_EXIT = 2
UNAVAILABLE_EXIT = 77
_NEW_PROCESSES = 0x2000_0000
_PR_SET_PDEATHSIG = 1
_FIRST_PROCESS = "10000"
"""So that no process in there has the number of one in a sandbox, whose numbers begin at 1."""
_MODULE = "tests.support.private_mounts"


class NotPrivateError(RuntimeError):
    """Something outside of /tmp could be changed from here."""


@dataclass(frozen=True, slots=True)
class _MountEntry:
    target: str
    kind: str
    is_read_only: bool

    @property
    def is_harmless(self) -> bool:
        return self.is_read_only or self.kind in _OF_THE_KERNEL or (self.kind == "tmpfs" and self.target in _PRIVATE)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def require() -> None:
    """Raises NotPrivateError unless every mount but the private ones is read-only."""
    writable = [entry.target for entry in _mounts() if not entry.is_harmless]
    if not any(entry.target == TEMPORARY and entry.kind == "tmpfs" for entry in _mounts()):
        writable.append(TEMPORARY)
    if writable:
        raise NotPrivateError(
            "Destructive tests run only in a private mount namespace, and here can be written: "
            f"{', '.join(writable)}. Start them with `python -m {_MODULE} PROGRAM`."
        )


def are_private() -> bool:
    """Whether destructive tests may run in this process."""
    try:
        require()
    except NotPrivateError:
        return False
    return True


def command(program: Sequence[str]) -> list[str]:
    """The command that runs `program` in a private mount namespace."""
    return [sys.executable, os.path.abspath(__file__), *program]


def enter() -> None:
    """Move this process there. It must have one thread. Raises OSError where the machine does not allow it."""
    mount_namespace.enter()
    with contextlib.ExitStack() as opened:
        needed = {path: opened.enter_context(_opened(path)) for path in _needed_below_tmp()}
        _set_attributes("/", _MountAttributes(attr_set=_READ_ONLY), _AT_RECURSIVE)
        for entry in _mounts():
            if entry.kind in _OF_THE_KERNEL:
                _set_attributes(entry.target, _MountAttributes(attr_clr=_READ_ONLY))
        here = os.getcwd()
        for target in _PRIVATE:
            check_errno(LIBC.mount(b"tmpfs", os.fsencode(target), b"tmpfs", 0, _TMPFS_OPTIONS), target)
        for path, fd in needed.items():
            os.makedirs(path)
            mount_namespace.bind(f"/proc/self/fd/{fd}", path)
    os.chdir(here)
    require()


def _environment() -> dict[str, str]:
    changed = {"HOME": f"{TEMPORARY}/home", "XDG_STATE_HOME": f"{TEMPORARY}/state", "TMPDIR": TEMPORARY}
    for folder in changed.values():
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return {**{name: value for name, value in os.environ.items() if not name.startswith("XDG_")}, **changed}


def _needed_below_tmp() -> list[str]:
    """Folders that the tmpfs would cover: a checkout, or the Python environment, that lies below /tmp."""
    folders = {os.getcwd(), sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(mount_namespace.__file__))}
    below = sorted(path for path in map(os.path.realpath, folders) if path.startswith(f"{TEMPORARY}/"))
    return [path for path in below if not any(path.startswith(f"{outer}/") for outer in below)]


@contextlib.contextmanager
def _opened(path: str) -> Generator[int]:
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _set_attributes(path: str, attributes: _MountAttributes, flags: int = 0) -> None:
    where, size = ctypes.c_char_p(os.fsencode(path)), ctypes.c_size_t(ctypes.sizeof(attributes))
    check_errno(
        LIBC.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, where, ctypes.c_uint(flags), ctypes.byref(attributes), size), path
    )


def _mounts() -> list[_MountEntry]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return [_entry(line) for line in table]


def _entry(line: str) -> _MountEntry:
    # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    mount, _, described = line.partition(" - ")
    _, _, _, _, target, options, *_ = mount.split()
    return _MountEntry(target, described.split()[0], "ro" in options.split(","))


def main(arguments: Sequence[str]) -> None:
    if not arguments:
        sys.stderr.write(f"usage: python -m {_MODULE} PROGRAM [ARGUMENT...]\n")
        raise SystemExit(_USAGE_EXIT)
    try:
        enter()
        check_errno(LIBC.unshare(_NEW_PROCESSES))
    except OSError as error:
        sys.stderr.write(f"No private mount namespace can be made here: {error}\n")
        raise SystemExit(UNAVAILABLE_EXIT) from None
    first = os.fork()
    if first:
        raise SystemExit(_exit_code(os.waitpid(first, 0)[1]))
    LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    check_errno(LIBC.mount(b"proc", b"/proc", b"proc", 0, None), "/proc")
    with contextlib.suppress(OSError), open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
        last.write(_FIRST_PROCESS)
    program = os.fork()
    if program == 0:
        os.execvpe(arguments[0], list(arguments), _environment())
    while True:  # orphans become children of the first process of a namespace
        ended, status = os.wait()
        if ended == program:
            os._exit(_exit_code(status))


def _exit_code(status: int) -> int:
    """As a shell tells it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main(sys.argv[1:])
