"""Fingerprints what a server's tools depend on, without starting the server.

An equal fingerprint means an equal listing: the entry is unchanged, and so are the program and every file that the
entry names. Other changes (such as a package that is downloaded at start) are detected by asking again when the
listing is old. Of a remote server, only the entry is known.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator

from toolyard.config.models import ServerEntry

FRESH_SECONDS = 24 * 3600.0
"""How long a listing is valid while the fingerprint is unchanged."""
_LONGEST_PATH = 4_095


def evidence_of(entry: ServerEntry, search_path: str) -> str:
    """Returns a hash of the entry and one of the files. Hashed, because the entry may contain secrets."""
    seen: list[object] = []
    for path in _paths(entry, search_path) if entry.command is not None else ():
        try:
            status = os.stat(path)
        except (OSError, ValueError):  # not a file
            continue
        seen.append((path, status.st_ino, status.st_size, status.st_mtime_ns))
    return f"{_hash_of_entry(entry)}-{_hash(seen)}"


def matches_entry(evidence: str, entry: ServerEntry) -> bool:
    """Whether the fingerprint belongs to the same entry, regardless of its files."""
    return evidence.partition("-")[0] == _hash_of_entry(entry)


def is_same_entry(one: ServerEntry, other: ServerEntry) -> bool:
    """Whether two entries start the same server, regardless of timeouts and allowed tools."""
    return _hash_of_entry(one) == _hash_of_entry(other)


def _hash_of_entry(entry: ServerEntry) -> str:
    return _hash(entry.model_dump(mode="json", exclude={"timeout", "allowed_tools", "exclude_tools"}))


def _hash(seen: object) -> str:
    return hashlib.blake2b(json.dumps(seen, sort_keys=True).encode("ascii"), digest_size=16).hexdigest()


def _paths(entry: ServerEntry, search_path: str) -> Iterator[str]:
    """Yields the program, and other values of the entry that may name a file."""
    program, *arguments = entry.command_line
    yield shutil.which(program, path=search_path) or program
    folder = entry.cwd or os.getcwd()
    for word in (*arguments, *entry.env.values()):
        name = word.partition("=")[2] if word.startswith("--") and "=" in word else word
        if name and "\0" not in name and len(name) <= _LONGEST_PATH:
            yield os.path.join(folder, os.path.expanduser(name))
