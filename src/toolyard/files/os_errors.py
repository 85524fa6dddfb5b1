"""Turns operating system errors into errors that a person or a model can act on."""

from __future__ import annotations

import errno
import os
import stat

from toolyard.core.errors import SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.fd_exhaustion import fd_exhaustion_fault

_OUTSIDE = {errno.EXDEV, errno.ELOOP}
_FULL = {errno.ENOSPC, errno.EDQUOT}


def explain(error: OSError, path: str) -> ToolyardError:
    """Returns the Toolyard error that says what `error` means for `path`."""
    number = error.errno
    if number in _OUTSIDE:
        return link_escape_error(path)
    if number == errno.ENOENT:
        return ToolError(f"No such file or folder: {path}.", hint="List the folder to see what is there.")
    if number == errno.ENOTDIR:
        return ToolError(f"A part of {path} is a file, not a folder.", hint="Check the path with a listing.")
    if number in {errno.EACCES, errno.EPERM}:
        return ToolError(f"The operating system denies access to {path}.", hint="Ask the user to change its mode.")
    if number == errno.ENAMETOOLONG:
        return ValidationError.of("path", "is too long", hint="Send a shorter path.")
    if number in _FULL:
        return SystemFault("The disk is full; nothing was changed.", hint="Free some space and try again.")
    if number == errno.EROFS:
        return ToolError(f"{path} is on a read-only file system.", hint="Write somewhere else.")
    if number == errno.EEXIST:
        return ToolError(f"{path} already exists.", hint="Choose another name.")
    if number == errno.EISDIR:
        return ToolError(f"{path} is a folder.", hint="Name a file.")
    return fd_exhaustion_fault(error) or SystemFault(
        f"{path}: {error.strerror or error}.", hint="Try again.", retryable=True
    )


def link_escape_error(path: str) -> SecurityError:
    """Builds the error for a path that a link leads out of its root."""
    return SecurityError(
        f"{path} leads out of its allowed folder through a link.",
        hint="Use a path whose links all stay inside the workspace.",
    )


def replaced_error(path: str) -> SecurityError:
    """Builds the error for a file that was replaced during the operation."""
    return SecurityError(
        f"{path} was replaced while it was being used; nothing was written.",
        hint="Look at the folder again before you retry.",
    )


def not_a_file_error(mode: int, path: str) -> ToolyardError:
    """Builds the error for something that is not a regular file."""
    if stat.S_ISDIR(mode):
        return ToolError(f"{path} is a folder, not a file.", hint="List it, or name a file in it.")
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFLNK: "a link that leads nowhere",
    }
    what = kinds.get(stat.S_IFMT(mode), "a special file")
    return SecurityError(f"{path} is {what}; only regular files are opened.", hint="Name a regular file.")


def printable_name(name: str) -> str:
    """Escapes a file name for printing and JSON: control characters and bytes that are not UTF-8."""
    if name.isprintable():  # no control characters and no undecodable bytes
        return name
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
