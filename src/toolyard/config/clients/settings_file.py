"""Updates a client's settings file atomically.

The file belongs to another program and may be a symbolic link, for example into a dotfiles repository: the link is
followed and preserved. New content replaces the file by a rename, with the same mode and owner, under a lock on its
folder that every Toolyard process honours. If another program writes the file meanwhile, the edit is repeated on the
new content. The original content is saved in a backup beside the file; a backup is never overwritten. A failed update
leaves nothing behind.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Final

from toolyard.config.server_files import MAX_FILE_BYTES
from toolyard.config.source_text import decode_text, read_bytes
from toolyard.core.errors import ConfigError, SystemFault

BACKUP_SUFFIX: Final = ".toolyard-backup"
_LOCK_SECONDS: Final = 10.0
_LOCK_PAUSE: Final = 0.05
_ATTEMPTS: Final = 5
_MAX_BACKUPS: Final = 99
_NEW_FILE: Final = 0o600
_NEW_FOLDER: Final = 0o700
_READ_HINT: Final = "Check what is at that path; nothing was written."


@dataclass(frozen=True, slots=True)
class SettingsContent:
    """The content of a file. `raw` is None if the file does not exist."""

    path: str
    raw: bytes | None = None
    version: tuple[int, ...] = ()
    """Changes whenever the file is written."""

    @property
    def text(self) -> str:
        return decode_text(self.raw, self.path) if self.raw else ""

    def encode(self, text: str) -> bytes:
        """Encodes `text`, with a byte order mark if the file has one."""
        mark = codecs.BOM_UTF8 if self.raw and self.raw.startswith(codecs.BOM_UTF8) else b""
        return mark + text.encode()


def read_content(path: str) -> SettingsContent:
    """Returns the content of a file. Raises ConfigError if the path exists but cannot be read."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return SettingsContent(path)
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=path, hint=_READ_HINT) from None
    raw = read_bytes(path, max_bytes=MAX_FILE_BYTES, hint=_READ_HINT)
    return SettingsContent(path, raw, (found.st_ino, found.st_mtime_ns, found.st_size))


def list_backups(path: str) -> list[str]:
    """Returns the paths of a file's backups, oldest first."""
    found = (name for name in _backup_names(path) if os.path.lexists(name))
    return [*found]


def update_file(
    path: str, edit: Callable[[SettingsContent], bytes | None], *, should_backup: Callable[[SettingsContent], bool]
) -> str:
    """Replaces the content of a file with the result of `edit`; None removes the file. Returns the backup's path.

    `should_backup` says whether the current content is an original. If either raises, nothing is changed.
    """
    with _folder_lock(path):
        for _ in range(_ATTEMPTS):
            former = read_content(path)
            new = edit(former)
            if new == former.raw:
                return ""
            saved_path = _write_backup(former) if former.raw is not None and should_backup(former) else ""
            if _replace_file(former, new):
                return saved_path
    raise SystemFault(
        f"{path} is being written by another program; nothing was changed.",
        hint="Close that program, or try again in a moment.",
        retryable=True,
    )


def _backup_names(path: str) -> Iterator[str]:
    yield path + BACKUP_SUFFIX
    yield from (f"{path}{BACKUP_SUFFIX}-{number}" for number in range(2, _MAX_BACKUPS))


def _write_backup(former: SettingsContent) -> str:
    """Writes a backup of the content and returns its path; an existing backup with the same content is reused."""
    raw = former.raw or b""
    for name in _backup_names(former.path):
        if os.path.lexists(name):
            if _has_content(name, raw):
                return name
            continue
        with _as_config_error(name):
            _write_new(name, raw, os.stat(former.path))
        return name
    raise SystemFault(
        f"{former.path} has {_MAX_BACKUPS - 1} backups already; nothing was changed.", hint="Remove old ones."
    )


def _has_content(path: str, raw: bytes) -> bool:
    try:
        return read_content(path).raw == raw
    except ConfigError:
        return False


def _replace_file(former: SettingsContent, new: bytes | None) -> bool:
    """Replaces the file and returns True, or False if another program wrote it meanwhile."""
    target = os.path.realpath(former.path)
    with _as_config_error(former.path):
        if former.raw is not None and not os.access(target, os.W_OK):
            raise ConfigError("is read-only; nothing was changed", where=former.path, hint="Make it writable first.")
        if new is None:
            is_same = read_content(former.path).version == former.version
            if is_same:
                os.unlink(target)
            return is_same
        staged = os.path.join(os.path.dirname(target), f".toolyard-tmp-{secrets.token_hex(8)}")
        try:
            _write_new(staged, new, os.stat(target) if former.raw is not None else None)
            if read_content(former.path).version != former.version:
                return False
            os.replace(staged, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(staged)
        _sync_folder(os.path.dirname(target))
    return True


def _write_new(path: str, raw: bytes, like: os.stat_result | None) -> None:
    """Writes a new file with the mode and owner of `like`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _NEW_FILE)
    with os.fdopen(handle, "wb") as file:
        if like is not None:
            with contextlib.suppress(PermissionError):  # another user's file: the new one is owned by us
                os.fchown(handle, like.st_uid, like.st_gid)
            os.fchmod(handle, stat.S_IMODE(like.st_mode))
        file.write(raw)
        file.flush()
        os.fsync(handle)


def _sync_folder(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _folder_lock(path: str) -> Generator[None]:
    """Holds a lock on the file's folder, so that no lock file is left behind."""
    folder = os.path.dirname(os.path.realpath(path))
    with _as_config_error(path):
        os.makedirs(folder, mode=_NEW_FOLDER, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        gives_up = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > gives_up:
                    raise SystemFault(
                        f"Another program holds the lock on {folder}; nothing was changed.",
                        hint="Try again in a moment.",
                        retryable=True,
                    ) from None
                time.sleep(_LOCK_PAUSE)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _as_config_error(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot be written ({error.strerror}); nothing was changed", where=path, hint="Check its folder's mode."
        ) from None
