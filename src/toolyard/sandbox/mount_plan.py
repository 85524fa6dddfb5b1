"""The file system that a sandbox with mounts of its own sees, as steps that build it. A later one covers an earlier.

The steps are neutral: `bubblewrap` words them as options, `namespaces` hands them to the warden, which makes the
mounts itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from toolyard.core.limits import MIB
from toolyard.core.paths import is_beneath
from toolyard.sandbox import guest_layout
from toolyard.sandbox.guest_layout import Interpreter
from toolyard.sandbox.spec import Spec

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
    # What programs trust and how they speak TLS. The folders around hold private keys, which root could read.
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
_OF_THE_KERNEL = ("/proc/kallsyms", "/proc/keys", "/proc/tty/driver")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the sandbox's own
_PID_MAX = "/proc/sys/kernel/pid_max"


class Kind(StrEnum):
    """What a step does. `toolyard_runtime.mounts` knows these words too."""

    LINK = "link"
    """A symbolic link; `source` is its text."""
    BIND = "bind"
    """The host's `source` is seen at `target`."""
    BIND_IF_THERE = "bind-if-there"
    TEXT = "text"
    """A file that cannot be changed; `source` is what it says."""
    MEMORY = "memory"
    """An empty folder of its own that holds `size` bytes."""
    PROC = "proc"
    DEV = "dev"
    READ_ONLY = "read-only"
    """What was built at `target` so far stays as it is."""


@dataclass(frozen=True, slots=True)
class Step:
    kind: Kind
    target: str
    source: str = ""
    writable: bool = False
    size: int = 0
    mode: int = 0
    plain: bool = False
    """No link may lie on the way to `source`."""

    def worded(self) -> tuple[str, str, str, bool, int, int, bool]:
        """As the warden's first frame carries it."""
        return self.kind.value, self.target, self.source, self.writable, self.size, self.mode, self.plain


def steps(spec: Spec, python: Interpreter, *, sets_pid_max: bool) -> Iterator[Step]:
    yield from _system()
    yield from _kernel_files(sets_pid_max=sets_pid_max)
    yield Step(Kind.MEMORY, guest_layout.TEMPORARY, size=spec.limits.temporary_bytes, mode=0o1777)
    yield Step(Kind.MEMORY, guest_layout.HOME, size=_HOME_BYTES, mode=0o700)
    yield Step(Kind.BIND, spec.workspace, spec.workspace, writable=spec.writable, plain=True)
    for mount in spec.mounts:
        yield Step(Kind.BIND, mount.inside, mount.source, writable=mount.writable, plain=True)
    # After the workspace, which may hold the very environment that Toolyard runs from.
    for path in python.folders:
        yield Step(Kind.BIND, path, path, plain=is_beneath(path, spec.workspace))
    yield Step(Kind.BIND, f"{guest_layout.RUNTIME}/toolyard_runtime", guest_layout.runtime_folder())
    for path in (*spec.hidden, *spec.special):
        yield _covered(path)
    yield Step(Kind.READ_ONLY, "/dev")
    yield Step(Kind.READ_ONLY, "/")


def _covered(path: str) -> Step:
    if os.path.isdir(path):
        return Step(Kind.MEMORY, path, size=_HIDDEN_BYTES, mode=0)
    return Step(Kind.BIND, path, os.devnull)  # a device on such a mount cannot be opened


def writable(spec: Spec) -> Iterator[str]:
    """The paths inside that runs may write to."""
    yield from (guest_layout.TEMPORARY, guest_layout.HOME, "/dev")
    if spec.writable:
        yield spec.workspace
    yield from (mount.inside for mount in spec.mounts if mount.writable)


def _system() -> Iterator[Step]:
    for path in SYSTEM_FOLDERS:
        if os.path.islink(path):
            yield Step(Kind.LINK, path, os.readlink(path))
        elif os.path.isdir(path):
            yield Step(Kind.BIND, path, path)
    for path in SYSTEM_FILES:
        yield Step(Kind.BIND_IF_THERE, path, path)
    for path, content in guest_layout.ETC.items():
        yield Step(Kind.TEXT, path, content)


def _kernel_files(*, sets_pid_max: bool) -> Iterator[Step]:
    yield Step(Kind.PROC, "/proc")
    for path in _READ_ONLY_PROC:
        yield Step(Kind.BIND_IF_THERE, path, path)
    for path in _untold():
        yield _covered(path)
    if sets_pid_max:  # each namespace has its own
        yield Step(Kind.BIND_IF_THERE, _PID_MAX, _PID_MAX, writable=True)
    yield Step(Kind.DEV, "/dev")
    yield Step(Kind.MEMORY, _SHARED_MEMORY, size=_SHARED_MEMORY_BYTES, mode=0o1777)


def _untold() -> Iterator[str]:
    """What the kernel tells of itself and code has no use for; to root, whatever it tells nobody else."""
    yield from filter(os.path.exists, _OF_THE_KERNEL)
    if os.geteuid() != 0:  # an ordinary user cannot read the rest anywhere
        return
    with os.scandir("/proc") as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_file(follow_symlinks=False) and not entry.stat().st_mode & stat.S_IROTH:
                yield entry.path
