"""The text of a configuration file, read with care: it may be anything that stands at that path."""

from __future__ import annotations

import os
import stat

from toolyard.core.errors import ConfigError

_PATH_HINT = "Check the path given to --config, or leave it out to use the defaults."


def read_text(path: str, *, max_bytes: int, hint: str = _PATH_HINT) -> str:
    """The file as text. `hint` is what to do where it cannot be read."""
    return decode_text(read_bytes(path, max_bytes=max_bytes, hint=hint), path)


def read_bytes(path: str, *, max_bytes: int, hint: str = _PATH_HINT) -> bytes:
    try:
        # Non-blocking, so that a FIFO in the file's place cannot hang the start.
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
    """The text of a file, without the mark that some programs put at its beginning."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8", where=f"{path}:{line}", hint="Save it as UTF-8 text.") from None
