"""The configurations that the user trusts: digests of each file and of the files it includes, in the state folder.

One small JSON file per configuration, named by a digest of its path, in `<state home>/trust`. Trust applies to
content: after any change the configuration is untrusted until the user trusts it again. Agents can never write to the
folder (`Yard.open`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from toolyard.config.included_files import included_files
from toolyard.config.loader import MAX_CONFIG_BYTES, parse_config
from toolyard.config.models import Config
from toolyard.config.source_text import decode_text, read_bytes
from toolyard.core.errors import ConfigError
from toolyard.storage.state_folder import ensure_state_dir

TRUST_FOLDER: Final = "trust"
_MISSING: Final = ""
"""In place of the digest of an unreadable file: when the file appears, the configuration has changed."""


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """One trusted configuration."""

    path: str
    """The configuration, as `path_in_real_folder` returns it."""
    at: float
    """When the user trusted it, in seconds since 1970."""
    files: Mapping[str, str]
    """The SHA-256 of the configuration and of each file that it includes."""


class TrustStore:
    """The trust records in one folder."""

    def __init__(self, state_home: str) -> None:
        self.folder = os.path.join(os.path.abspath(state_home), TRUST_FOLDER)

    def trusted_config(self, path: str, home: str) -> Config | None:
        """Returns the configuration, with its variables substituted, if the content read here is trusted; else None.

        Raises ConfigError if a trusted configuration cannot be used, for example because a variable is not set.
        """
        record = self.record(path)
        if record is None:
            return None
        try:
            raw = read_bytes(path, max_bytes=MAX_CONFIG_BYTES)
        except ConfigError:
            return None
        if record.files.get(record.path) != _digest(raw):
            return None
        config = parse_config(decode_text(raw, path), path)
        return config if content_digests(path, raw, config, home) == record.files else None

    def is_current(self, record: TrustRecord) -> bool:
        """Returns whether the files are unchanged since the user trusted them."""
        return file_digests(record.files) == record.files

    def record(self, path: str) -> TrustRecord | None:
        """Returns the record of a configuration; None if it was never trusted."""
        return _read(self._file(path))

    def records(self) -> list[TrustRecord]:
        """Returns all records, sorted by path."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        found = (_read(os.path.join(self.folder, name)) for name in names)
        return sorted((record for record in found if record is not None), key=lambda record: record.path)

    def grant(self, path: str, files: Mapping[str, str]) -> None:
        """Trusts the configuration at `path` for as long as `files` have these digests."""
        ensure_state_dir(self.folder)
        file = self._file(path)
        record = TrustRecord(path_in_real_folder(path), time.time(), files)
        new = f"{file}.{os.getpid()}"
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            json.dump(asdict(record), written)
        os.replace(new, file)

    def revoke(self, path: str) -> bool:
        """Removes the trust. Returns False if it was not trusted."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._file(path))
            return True
        return False

    def _file(self, path: str) -> str:
        name = path_in_real_folder(path).encode("utf-8", "surrogateescape")
        return os.path.join(self.folder, hashlib.sha256(name).hexdigest())


def path_in_real_folder(path: str) -> str:
    """Returns the path with the links of its folder resolved, but not the file itself.

    Relative paths in a configuration start at its own location: a link to a trusted one is another configuration.
    """
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def content_digests(path: str, raw: bytes, config: Config, home: str) -> dict[str, str]:
    """Returns the digests of the configuration, which was already read, and of the files that it includes."""
    return {**file_digests(included_files(config, home)), path_in_real_folder(path): _digest(raw)}


def file_digests(paths: Iterable[str]) -> dict[str, str]:
    """Returns the SHA-256 of each file; a fixed value for unreadable ones."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            found[path] = _digest_of_file(path)
        except (OSError, ValueError):
            found[path] = _MISSING
    return found


def _digest_of_file(path: str) -> str:
    """Returns the digest of the whole file, however large: changes beyond a limit would go unnoticed."""
    # Non-blocking, so that a FIFO in place of the file cannot hang the start.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return _MISSING
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _read(file: str) -> TrustRecord | None:
    """Reads a record; None if there is none or the file is not a record."""
    try:
        with open(file, encoding="utf-8") as handle:
            fields = cast("dict[str, Any]", json.load(handle))
        return TrustRecord(str(fields["path"]), float(fields["at"]), dict(fields["files"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
