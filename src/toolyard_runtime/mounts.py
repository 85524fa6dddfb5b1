"""Moves the supervisor into its own file system: makes the mounts, changes the root, and detaches the old one.

For the tier with fresh namespaces and without bubblewrap. It needs every capability of its own user namespace; the
supervisor drops them afterwards. Each step is (kind, target, source, writable, size, mode, no_symlinks), as the
host's `sandbox.mount_plan` defines them. A step that fails raises OSError: there is no partially built file system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

import toolyard_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolyard_runtime.messages import Step

_BASE = "/tmp"  # noqa: S108 - covered by a private mount
_OLD, _NEW = "/old", "/new"
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_MOUNT_SETATTR = 442  # Linux 5.12; the same on every architecture
_NO_SUID, _NO_DEVICES, _NO_EXECUTE = 2, 4, 8  # alike as MS_ and as MOUNT_ATTR_
_READ_ONLY = 1
_BIND, _RECURSIVE, _PRIVATE = 1 << 12, 1 << 14, 1 << 18
_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_HOST_NAME = "toolyard"
_TYPE_OF_FILE, _LINK = 0o170000, 0o120000
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GET_FLAGS, _SET_FLAGS, _INTERFACE_UP = 0x8913, 0x8914, 0x1

_LIBC = ctypes.CDLL(None, use_errno=True)


def enter(steps: list[Step], runtime: str) -> None:
    """Builds the file system and makes it the only one. The runtime package is at `runtime` afterwards."""
    found = [(*step[:2], _resolve_source(step), *step[3:]) for step in steps]  # before any mount covers a path
    _prepare_roots()
    for kind, target, source, writable, size, mode, plain in found:
        place = _NEW + (target if target != "/" else "")
        if kind == "link":
            os.symlink(source, place)
        elif kind == "bind" or (kind == "bind-if-there" and os.path.lexists(_OLD + source)):
            _bind(source, place, _NO_SUID | _NO_DEVICES | (0 if writable else _READ_ONLY), plain=plain)
        elif kind == "text":
            _write(place, source)
        elif kind == "memory":
            _ensure_folder(place)
            _mount("tmpfs", place, "tmpfs", _NO_SUID | _NO_DEVICES, f"size={size},mode={mode:o}")
        elif kind == "proc":
            _ensure_folder(place)
            _mount("proc", place, "proc", _NO_SUID | _NO_DEVICES | _NO_EXECUTE)
        elif kind == "dev":
            _make_devices(place)
        elif kind == "read-only":
            _set_attributes(place, _READ_ONLY, recursive=False)
    _switch_root()
    sys.path[0] = runtime
    toolyard_runtime.__path__[:] = [f"{runtime}/toolyard_runtime"]


def bring_up_loopback() -> None:
    """Sets the host name and brings up the loopback interface."""
    import fcntl
    import socket
    import struct

    socket.sethostname(_HOST_NAME)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH22x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, _GET_FLAGS, asked), 16)
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _INTERFACE_UP))


def _resolve_source(step: Step) -> str:
    """Resolves links while the root is still the host's; a source with `no_symlinks` must not contain any."""
    kind, source, plain = step[0], step[2], step[6]
    return os.path.realpath(source) if kind in {"bind", "bind-if-there"} and not plain else source


def _prepare_roots() -> None:
    """Mounts the old root at `_OLD` and an empty new one at `_NEW`."""
    _mount("", "/", "", _RECURSIVE | _PRIVATE)
    _mount("tmpfs", _BASE, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=0755")
    for path in (_OLD, _NEW):
        os.mkdir(_BASE + path)
    _mount("tmpfs", _BASE + _NEW, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=0755")
    os.chdir(_BASE)
    _pivot(".", f".{_OLD}")
    os.chdir("/")


def _switch_root() -> None:
    """Makes `_NEW` the root and detaches the old one."""
    _check_errno(_LIBC.umount2(_OLD.encode(), _DETACH), _OLD)
    os.chdir(_NEW)
    _pivot(".", ".")  # afterwards the old root is mounted on top of the new one
    _check_errno(_LIBC.umount2(b".", _DETACH), "/")
    os.chdir("/")


def _bind(source: str, place: str, attributes: int, *, plain: bool = False) -> None:
    """Binds through a handle, so that the mounted file is the one that was checked."""
    fd = os.open(_OLD + source, os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if plain else 0))
    try:
        handle = f"{_OLD}/proc/self/fd/{fd}"
        if plain and (_is_link(fd) or os.readlink(handle) != _OLD + source):
            raise OSError(errno.ELOOP, "its path contains a symbolic link", source)
        if os.path.isdir(handle):
            _ensure_folder(place)
        elif not os.path.lexists(place):
            _write(place, "")
        _check_no_symlinks(place)
        _mount(handle, place, "", _BIND | _RECURSIVE)
    finally:
        os.close(fd)
    _set_attributes(place, attributes, recursive=True)


def _is_link(fd: int) -> bool:
    return os.fstat(fd).st_mode & _TYPE_OF_FILE == _LINK


def _make_devices(place: str) -> None:
    _ensure_folder(place)
    _mount("tmpfs", place, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=0755")  # each device below is a mount of its own
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{place}/{name}", _NO_SUID)
    for name, text in _LINKS.items():
        os.symlink(text, f"{place}/{name}")
    _ensure_folder(f"{place}/pts")
    _mount("devpts", f"{place}/pts", "devpts", _NO_SUID | _NO_EXECUTE, "newinstance,ptmxmode=0666,mode=620")


def _ensure_folder(place: str) -> None:
    os.close(_open_folder(place))


def _open_folder(place: str) -> int:
    """Opens the folder and creates missing parts. Walks step by step: a link could lead to the host's own files."""
    handle = os.open("/", _STEP)
    for name in filter(None, place.split("/")):
        try:
            below = _open_or_make(name, handle)
        except NotADirectoryError:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place.removeprefix(_NEW)) from None
        finally:
            os.close(handle)
        handle = below
    return handle


def _open_or_make(name: str, above: int) -> int:
    try:
        return os.open(name, _STEP, dir_fd=above)
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=above)
        return os.open(name, _STEP, dir_fd=above)


def _write(place: str, text: str) -> None:
    folder = _open_folder(os.path.dirname(place))
    try:
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        fd = os.open(os.path.basename(place), how, 0o444, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _check_no_symlinks(place: str) -> None:
    """Raises OSError if the path contains a link: the mount would go elsewhere and leave this path uncovered."""
    if os.path.realpath(place) != place:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place.removeprefix(_NEW))


def _mount(source: str, place: str, kind: str, flags: int, options: str = "") -> None:
    done = _LIBC.mount(source.encode(), place.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check_errno(done, place.removeprefix(_NEW))


def _set_attributes(place: str, attributes: int, *, recursive: bool) -> None:
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    done = _LIBC.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, place.encode(), flags, ctypes.byref(wanted), size)
    _check_errno(done, place.removeprefix(_NEW))


def _pivot(new: str, old: str) -> None:
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), "pivot_root")
    _check_errno(_LIBC.syscall(number, new.encode(), old.encode()), "pivot_root")


def _check_errno(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
