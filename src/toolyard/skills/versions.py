"""The version history of a skill: `skills/<owner>/.versions/<name>/versions.json`, with the files beside it.

Each entry records its author, its time, a hash over all files, and the source of a promotion. The owner can write
this folder, like the skill itself, so it is a record and not a proof. The hash shows whether a skill was edited by
hand since.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

from toolyard.files.locked_document import LockedDocument, parse_list, write_list
from toolyard.files.roots import Root
from toolyard.files.safe_paths import ensure_folder, read_file, rewrite_file
from toolyard.files.timestamps import utc_timestamp

VERSIONS = ".versions"
MANIFEST_FILE = "versions.json"
_MAX_ENTRIES = 200
_IGNORE = b"*\n"
_MAX_IGNORE_BYTES = 10_000
"""Searches should find the skill in use, not its former versions."""


@dataclass(frozen=True, slots=True)
class Version:
    """One saved version."""

    number: int
    agent: str
    """The author; empty if it was edited by hand, or saved by the user."""
    time: str
    hash: str
    promoted_from: str = ""
    """`<owner>/<name>@<hash>` of the promoted skill."""
    note: str = ""


def new_version(number: int, agent: str, digest: str, promoted_from: str = "", note: str = "") -> Version:
    """Returns a version with the current time."""
    return Version(number, agent, utc_timestamp(), digest, promoted_from, note)


class VersionManifest:
    """The recorded versions of one skill."""

    def __init__(self, root: Root, skills: str, name: str) -> None:
        """`skills` is the folder of the owner's skills, relative to the root."""
        self.folder = f"{skills}/{VERSIONS}/{name}"
        self._file = LockedDocument(root, self.folder, MANIFEST_FILE, parse_list, write_list)
        self._root, self._ignore_file = root, f"{skills}/{VERSIONS}/.ignore"

    def read(self) -> tuple[Version, ...]:
        """Returns the recorded versions, the oldest first."""
        return tuple(version for row in self._file.read() if (version := _parse_version(row)) is not None)

    def add(self, *versions: Version) -> None:
        # A damaged record is moved aside, so that it does not prevent saving.
        """Appends versions to the record."""
        self._file.set_aside()
        ensure_folder(self._root, self.folder)
        if read_file(self._root, self._ignore_file, _MAX_IGNORE_BYTES) is None:
            rewrite_file(self._root, self._ignore_file, lambda _: _IGNORE, len(_IGNORE))
        self._file.change(lambda rows: [*rows, *map(_version_row, versions)][-_MAX_ENTRIES:])


def _version_row(version: Version) -> dict[str, Any]:
    return {key: value for key, value in asdict(version).items() if value != ""}


def _parse_version(row: Any) -> Version | None:
    if not isinstance(row, dict):
        return None
    known = cast("dict[str, Any]", row)
    number = known.get("number")
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    texts = {key: str(known.get(key, "")) for key in ("agent", "time", "hash", "promoted_from", "note")}
    return Version(number, **texts)
