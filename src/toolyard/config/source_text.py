"""Reads configuration files defensively: the path may be a FIFO, a folder, or a file of any size."""

from __future__ import annotations

import os
import stat

from toolyard.core.errors import ConfigError

_PATH_HINT = "Check the path given to --config, or leave it out to use the defaults."


def read_text(path: str, *, max_bytes: int, hint: str = _PATH_HINT) -> str:
    """Returns the file as text. Raises ConfigError with `hint` if it cannot be read."""
    return decode_text(read_bytes(path, max_bytes=max_bytes, hint=hint), path)


def read_bytes(path: str, *, max_bytes: int, hint: str = _PATH_HINT) -> bytes:
    """Returns the bytes of a regular file. Raises ConfigError with `hint` if it cannot be read."""
    try:
        # Non-blocking, so that a FIFO at this path cannot hang the start.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot be read ({reason})", where=path, hint=hint) from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(f"is {_describe_file_kind(mode)}not a regular file", where=path, hint=hint)
        with os.fdopen(handle, "rb", closefd=False) as file:
            raw = file.read(max_bytes + 1)
    finally:
        os.close(handle)
    if len(raw) > max_bytes:
        raise ConfigError(f"is larger than {max_bytes} bytes", where=path, hint="A configuration is a few kilobytes.")
    return raw


def _describe_file_kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder, "
    return "a named pipe, " if stat.S_ISFIFO(mode) else ""


def decode_text(raw: bytes, path: str) -> str:
    """Returns the text of a UTF-8 file without its byte order mark. Raises ConfigError with the line otherwise."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8", where=f"{path}:{line}", hint="Save it as UTF-8 text.") from None
