"""Determines which paths a system call of another process is about to change, from its memory while it waits.

Paths are resolved as the kernel would: from the caller's working folder or descriptor, through every link on the way.
If the call itself will fail (a bad pointer, a closed descriptor, a missing folder), nothing changes. The caller may
rewrite its memory after it was read, so a hostile program can hide its changes.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolyard_runtime.messages import CallPath

_FIRST_READ_BYTES, _MAX_PATH_BYTES = 256, 4_096
"""Bytes of a path that are read first, and at most: the kernel's own limit."""
_MOST_LINKS = 40
_LOW_32_BITS = 0xFFFFFFFF
_WORKING_FOLDER = 0xFFFFFF9C  # AT_FDCWD
_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NEW_FILE = os.O_CREAT | os.O_EXCL
_READ = os.O_RDONLY | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FLAGS_BYTES = 8  # at the beginning of struct open_how
_TYPE_OF_FILE, _IS_FOLDER = 0o170000, 0o040000
_TOO_LONG = 36
_OWN_RESOURCE_ERRORS = frozenset(
    {12, 23, 24, 36}
)  # ENOMEM, ENFILE, EMFILE, ENAMETOOLONG: the call itself may succeed
_OWN_DESCRIPTORS, _OWN_ENTRIES = b"/dev/fd/", (b"/proc/self/", b"/proc/thread-self/")


class UnobservableChange(Exception):  # noqa: N818 - control flow, not an error
    """The call may change something that cannot be determined."""


def requested_paths(pid: int, named: list[CallPath], arguments: tuple[int, ...]) -> list[tuple[bytes, bytes, bool]]:
    """Returns the paths as the caller spelled them: the base folder, the path, and whether a final link is followed.

    Valid only while the caller waits for the answer. Raises UnobservableChange.
    """
    how, _, folder_at, _ = named[0]
    if how == "unseen":
        raise UnobservableChange
    try:
        if how == "held":
            return [(_read_link(b"/proc/%d/fd/%d" % (pid, arguments[folder_at] & _LOW_32_BITS)), b"", False)]
        memory = os.open(b"/proc/%d/mem" % pid, _READ)
        try:
            found = [_requested_path(pid, memory, each, arguments) for each in named]
        finally:
            os.close(memory)
    except PermissionError:  # its memory is protected
        raise UnobservableChange from None
    except OSError as error:
        if error.errno in _OWN_RESOURCE_ERRORS:
            raise UnobservableChange from None
        return []
    except OverflowError:
        return []
    return [each for each in found if each is not None]


def real_paths(
    requested: list[tuple[bytes, bytes, bool]], folders: dict[bytes, bytes], *, are_moved: bool
) -> list[tuple[bytes, bool]]:
    """Returns the real paths, each with whether everything beneath it changes too.

    `folders` caches the real paths of folders; the caller clears it regularly.
    """
    found: list[bytes] = []
    for base, path, follows in requested:
        real = _real_path(base, path, folders) if path else base
        if real is not None and follows:
            real = _follow_links(real, folders)
        if real is not None:
            found.append(real)
    is_tree = are_moved and any(map(_is_folder, found))
    if are_moved:
        folders.clear()
    return [(path, is_tree) for path in found]


def _requested_path(
    pid: int, memory: int, named: CallPath, arguments: tuple[int, ...]
) -> tuple[bytes, bytes, bool] | None:
    how, path_at, folder_at, flags_at = named
    follows = how == "target"
    if flags_at >= 0:
        flags = arguments[flags_at]
        if how == "opened-how":
            flags = int.from_bytes(os.pread(memory, _FLAGS_BYTES, flags), sys.byteorder)
            if not flags & _CHANGING:
                return None
        follows = not flags & os.O_NOFOLLOW and flags & _NEW_FILE != _NEW_FILE
    path = _read_c_string(memory, arguments[path_at])
    if path is None:
        return None
    own = _split_proc_self(path)
    if own is not None:
        entry, rest = own
        # The link itself cannot be created or removed.
        return (_read_link(b"/proc/%d/%b" % (pid, entry)), rest, follows and bool(rest)) if rest or follows else None
    if path[:1] == b"/":
        return _read_link(b"/proc/%d/root" % pid), path, follows
    if folder_at < 0 or arguments[folder_at] & _LOW_32_BITS == _WORKING_FOLDER:
        return _read_link(b"/proc/%d/cwd" % pid), path, follows
    return _read_link(b"/proc/%d/fd/%d" % (pid, arguments[folder_at] & _LOW_32_BITS)), path, follows


def _split_proc_self(path: bytes) -> tuple[bytes, bytes] | None:
    """Splits a path through the caller's own /proc entry into the entry and the rest: ours would be another one."""
    if path.startswith(_OWN_DESCRIPTORS):
        path = b"/proc/self/fd/" + path[len(_OWN_DESCRIPTORS) :]
    for prefix in _OWN_ENTRIES:
        if path.startswith(prefix):
            entry, _, rest = path[len(prefix) :].partition(b"/")
            if entry == b"fd":
                number, _, rest = rest.partition(b"/")
                return (b"fd/" + number, rest) if number.isdigit() else None
            return (entry, rest) if entry in {b"cwd", b"root"} else None
    return None


def _read_c_string(memory: int, address: int) -> bytes | None:
    """Reads a NUL-terminated string; None if there is none, because the call then fails."""
    for size in (_FIRST_READ_BYTES, _MAX_PATH_BYTES):
        read = os.pread(memory, size, address)
        end = read.find(b"\0")
        if end >= 0:
            return read[:end]
        if len(read) < size:  # the memory ends here
            return None
    return None


def _real_path(base: bytes, path: bytes, folders: dict[bytes, bytes]) -> bytes | None:
    """Resolves `path` from the folder `base` up to its last name; None if its folder does not exist."""
    path = path.rstrip(b"/")
    if b"/" not in path and path not in {b"", b".", b".."}:
        found = b"%b/%b" % (base, path)
        if found in folders:  # the call may be about to replace it
            folders.clear()
        return found
    above, _, name = (b"%b/%b" % (base, path)).rpartition(b"/")
    if name in {b"", b".", b".."}:
        return _real_folder(b"%b/%b" % (above, name), folders)
    folder = _real_folder(above or b"/", folders)
    if folder is None:
        return None
    return _real_path(folder, name, folders)


def _real_folder(path: bytes, folders: dict[bytes, bytes]) -> bytes | None:
    """Returns the real path of a folder. Raises UnobservableChange."""
    found = folders.get(path)
    if found is None:
        try:
            handle = os.open(path, _FOLDER)
        except OSError as error:
            if error.errno in _OWN_RESOURCE_ERRORS and (error.errno != _TOO_LONG or len(path) >= _MAX_PATH_BYTES):
                raise UnobservableChange from None  # the caller may reach it by a relative path
            return None
        try:
            found = _read_link(b"/proc/self/fd/%d" % handle)
        finally:
            os.close(handle)
        folders[path] = found
    return found


def _follow_links(path: bytes, folders: dict[bytes, bytes]) -> bytes | None:
    """Follows the links from a file's name to its target."""
    found: bytes | None = path
    for _ in range(_MOST_LINKS):
        if found is None:
            return None
        try:
            target = os.readlink(found)
        except OSError:  # not a link, or it does not exist yet
            return found
        base = b"" if target[:1] == b"/" else found.rpartition(b"/")[0]
        found = _real_path(base, target, folders)
    return None


def _is_folder(path: bytes) -> bool:
    try:
        return os.lstat(path).st_mode & _TYPE_OF_FILE == _IS_FOLDER
    except OSError:
        return False


def _read_link(path: bytes) -> bytes:
    """Reads a link; empty for the root, so that a name can be appended."""
    found = os.readlink(path)
    return b"" if found == b"/" else found
