"""The file system of a sandbox with its own mounts, as steps that build it. A later step covers an earlier one.

The steps are independent of the tier: `bubblewrap` translates them into options, `namespaces` sends them to the
supervisor, which makes the mounts itself.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB
from toolyard.core.paths import is_beneath
from toolyard.linux import openat2
from toolyard.sandbox import guest_layout
from toolyard.sandbox.guest_layout import Interpreter
from toolyard.sandbox.spec import Mount, SandboxSpec

_HOME_BYTES = 256 * MIB
_SHARED_MEMORY_BYTES = 256 * MIB
_HIDDEN_BYTES = 4096
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/fonts",
    # Trusted certificates and TLS settings only. The parent folders contain private keys, which root could read.
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust",
    "/etc/crypto-policies",
    "/etc/ca-certificates",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/protocols",
    "/etc/services",
    "/etc/terminfo",
)
# For these files the kernel checks the real user: root on the host stays root, whatever its name inside.
_READ_ONLY_PROC = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
)
_HIDDEN_KERNEL_FILES = ("/proc/kallsyms", "/proc/keys", "/proc/tty/driver")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the sandbox's own
_AT_FDCWD = -100  # of no effect on an absolute path
_PID_MAX = "/proc/sys/kernel/pid_max"


class StepKind(StrEnum):
    """What a step does. `toolyard_runtime.mounts` uses the same values."""

    LINK = "link"
    """Creates a symbolic link with the text `source`."""
    BIND = "bind"
    """Mounts the host's `source` at `target`."""
    BIND_IF_THERE = "bind-if-there"
    """As BIND, if `source` exists."""
    TEXT = "text"
    """Creates a read-only file with the content `source`."""
    MEMORY = "memory"
    """Mounts an empty tmpfs of `size` bytes."""
    PROC = "proc"
    DEV = "dev"
    READ_ONLY = "read-only"
    """Makes `target`, as built so far, read-only."""


@dataclass(frozen=True, slots=True)
class MountStep:
    """One step of building the file system."""

    kind: StepKind
    target: str
    source: str = ""
    writable: bool = False
    size: int = 0
    mode: int = 0
    no_symlinks: bool = False
    """The path to `source` must not contain symbolic links."""

    def as_tuple(self) -> tuple[str, str, str, bool, int, int, bool]:
        """Returns it in the form that the supervisor's first frame carries."""
        return self.kind.value, self.target, self.source, self.writable, self.size, self.mode, self.no_symlinks


def mount_steps(spec: SandboxSpec, python: Interpreter, *, sets_pid_max: bool) -> Iterator[MountStep]:
    """Yields the steps that build the file system for `spec`."""
    yield from _system_steps()
    yield from _kernel_file_steps(sets_pid_max=sets_pid_max)
    yield MountStep(StepKind.MEMORY, guest_layout.TEMPORARY, size=spec.limits.temporary_bytes, mode=0o1777)
    yield MountStep(StepKind.MEMORY, guest_layout.HOME, size=_HOME_BYTES, mode=0o700)
    yield MountStep(StepKind.BIND, spec.workspace, spec.workspace, writable=spec.writable, no_symlinks=True)
    for mount in spec.mounts:
        yield MountStep(StepKind.BIND, mount.inside, mount.source, writable=mount.writable, no_symlinks=True)
    # After the workspace, because it may contain the environment that Toolyard runs from.
    for path in python.folders:
        yield MountStep(StepKind.BIND, path, path, no_symlinks=is_beneath(path, spec.workspace))
    yield MountStep(StepKind.BIND, f"{guest_layout.RUNTIME}/toolyard_runtime", guest_layout.runtime_folder())
    for path in (*spec.hidden, *spec.special):
        yield _hiding_step(path)
    yield MountStep(StepKind.READ_ONLY, "/dev")
    yield MountStep(StepKind.READ_ONLY, "/")


def _hiding_step(path: str) -> MountStep:
    if os.path.isdir(path):
        return MountStep(StepKind.MEMORY, path, size=_HIDDEN_BYTES, mode=0)
    return MountStep(
        StepKind.BIND, path, os.devnull
    )  # devices cannot be opened on such a mount, so this hides the file


def writable_paths(spec: SandboxSpec) -> Iterator[str]:
    """Yields the paths inside that runs may write to."""
    yield from (guest_layout.TEMPORARY, guest_layout.HOME, "/dev")
    if spec.writable:
        yield spec.workspace
    yield from (mount.inside for mount in spec.mounts if mount.writable)


def expected_mounts(spec: SandboxSpec) -> list[tuple[str, int, int]]:
    """Returns the workspace and each mount, by path inside, with the expected device and inode."""
    return [(mount.inside, *_open_inode(mount.source)[1:]) for mount in (Mount(spec.workspace), *spec.mounts)]


def open_without_symlinks(path: str) -> int:
    """Opens exactly this path. Raises SystemFault if any part of it is a symbolic link.

    An agent that may write a parent folder could have put a link there to expose something else.
    """
    try:
        if openat2.is_available():
            resolve = openat2.RESOLVE_NO_SYMLINKS | openat2.RESOLVE_NO_MAGICLINKS
            return openat2.openat2(_AT_FDCWD, path, os.O_PATH, resolve)
        if os.path.realpath(path) != path:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        why = "its path contains a symbolic link" if error.errno == errno.ELOOP else error.strerror
        message = f"{path} cannot be shown in the sandbox: {why}."
        raise SystemFault(message, hint="Inspect that folder before you run anything there.") from error


def _system_steps() -> Iterator[MountStep]:
    for path in SYSTEM_FOLDERS:
        if os.path.islink(path):
            yield MountStep(StepKind.LINK, path, os.readlink(path))
        elif os.path.isdir(path):
            yield MountStep(StepKind.BIND, path, path)
    for path in SYSTEM_FILES:
        yield MountStep(StepKind.BIND_IF_THERE, path, path)
    for path, content in guest_layout.ETC_FILES.items():
        yield MountStep(StepKind.TEXT, path, content)


def _kernel_file_steps(*, sets_pid_max: bool) -> Iterator[MountStep]:
    yield MountStep(StepKind.PROC, "/proc")
    for path in _READ_ONLY_PROC:
        yield MountStep(StepKind.BIND_IF_THERE, path, path)
    for path in _hidden_proc_files():
        yield _hiding_step(path)
    if sets_pid_max:  # each namespace has its own
        yield MountStep(StepKind.BIND_IF_THERE, _PID_MAX, _PID_MAX, writable=True)
    yield MountStep(StepKind.DEV, "/dev")
    yield MountStep(StepKind.MEMORY, _SHARED_MEMORY, size=_SHARED_MEMORY_BYTES, mode=0o1777)


def _hidden_proc_files() -> Iterator[str]:
    """Yields files of /proc that code has no use for; for root, also those that other users cannot read."""
    yield from filter(os.path.exists, _HIDDEN_KERNEL_FILES)
    if os.geteuid() != 0:  # an ordinary user cannot read the rest anywhere
        return
    with os.scandir("/proc") as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_file(follow_symlinks=False) and not entry.stat().st_mode & stat.S_IROTH:
                yield entry.path


def _open_inode(path: str) -> tuple[str, int, int]:
    try:
        fd = open_without_symlinks(path)
    except SystemFault:
        return path, 0, 0
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    return path, found.st_dev, found.st_ino
