"""Opens files and folders of a workspace by directory handle, never through a link.

Whatever an agent leaves in its folders (a link to another agent's memory, a pipe, a file where a folder should be) is
refused, not followed. The caller owns the Target that it gets.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace

from toolyard.core.errors import SecurityError, SystemFault, ToolyardError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files import file_io
from toolyard.files.mounts import Target
from toolyard.files.os_errors import explain
from toolyard.files.roots import Handle, Root

_LINKS = {errno.ELOOP, errno.EXDEV}


def make_folder(root: Root, relative: str) -> int:
    """Opens a folder for reading, created with its parents if it is missing. The caller closes it."""
    try:
        return root.make_folder(relative)
    except OSError as error:
        why = f"{error.filename} is a link" if error.errno == errno.ELOOP else error.strerror
        raise SystemFault(
            f"The folder {relative} cannot be made or used: {why}.",
            hint="It must be a plain folder that you may write to.",
        ) from error


def ensure_folder(root: Root, relative: str) -> None:
    """Creates a folder with its parents if it is missing."""
    os.close(make_folder(root, relative))


def open_folder(root: Root, relative: str) -> int | None:
    """Opens an existing folder for reading; None if it does not exist. The caller closes it."""
    try:
        return root.open_folder(relative)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise path_error(error, relative) from error


def open_target(root: Root, relative: str) -> Target:
    """Opens a file in an existing folder, or the place where it would be created."""
    try:
        return Target(root, relative, root.open(relative, links=False), ())
    except FileNotFoundError:
        pass
    except OSError as error:
        raise path_error(error, relative) from error
    folder, _, name = relative.rpartition("/")
    try:
        handle = root.open(folder or ".", links=False)
    except OSError as error:
        raise path_error(error, relative) from error
    return _missing_target(root, relative, handle, name)


def _missing_target(root: Root, relative: str, handle: Handle, name: str) -> Target:
    if not handle.is_folder:
        handle.close()
        raise path_error(NotADirectoryError(errno.ENOTDIR, "not a folder"), relative)
    return Target(root, relative, handle, (name,))


def read_file(root: Root, relative: str, max_bytes: int) -> bytes | None:
    """Reads a whole regular file of at most `max_bytes`; None if it does not exist."""
    try:
        handle = root.open(relative, links=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise path_error(error, relative) from error
    with Target(root, relative, handle, ()) as target:
        return file_io.read(target, replace(DEFAULT_LIMITS, file_bytes=max_bytes)).data


def size_of(root: Root, relative: str) -> int:
    """Returns the size of a regular file; 0 for anything else, or if it does not exist."""
    try:
        with root.open(relative, links=False) as handle:
            return handle.status.st_size if handle.is_file else 0
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise path_error(error, relative) from error


def rewrite_file(root: Root, relative: str, change: Callable[[bytes | None], bytes], max_bytes: int) -> None:
    """Replaces a file's content under its folder's lock, in one step. `change` may raise to cancel."""
    limits = replace(DEFAULT_LIMITS, file_bytes=max_bytes)
    with open_target(root, relative) as target:
        file_io.rewrite(target, lambda before: change(None if before is None else before.data), limits)


def path_error(error: OSError, relative: str) -> ToolyardError:
    """Returns the error that says why a path was not opened; links have one of their own."""
    if error.errno in _LINKS:
        return SecurityError(
            f"{relative} goes through a link, which is not followed here.", hint="Put a plain file or folder there."
        )
    return explain(error, relative)
