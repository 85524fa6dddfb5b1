"""What is known of a skill's versions: `skills/<owner>/.versions/<name>/versions.json`, and their files beside it.

Each entry says who saved it, when, what it was (a hash over all files) and where it was promoted from. The folder
lies where its owner can write, like the skill itself: it is a record, not a proof. The hash tells whether a skill was
edited by hand since.
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
"""Searches find the skill that is in use, not all it once was."""


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    agent: str
    """Who saved it; empty when it was edited by hand, or by the user."""
    time: str
    hash: str
    promoted_from: str = ""
    """`<owner>/<name>`, and the hash it had there."""
    note: str = ""


def new_version(number: int, agent: str, digest: str, promoted_from: str = "", note: str = "") -> Version:
    return Version(number, agent, utc_timestamp(), digest, promoted_from, note)


class VersionManifest:
    def __init__(self, root: Root, skills: str, name: str) -> None:
        """`skills` is the folder of the owner's skills, relative to the root."""
        self.folder = f"{skills}/{VERSIONS}/{name}"
        self._file = LockedDocument(root, self.folder, MANIFEST_FILE, parse_list, write_list)
        self._root, self._ignore_file = root, f"{skills}/{VERSIONS}/.ignore"

    def read(self) -> tuple[Version, ...]:
        return tuple(version for row in self._file.read() if (version := _parse_version(row)) is not None)

    def add(self, *versions: Version) -> None:
        # A record that somebody broke is kept beside the new one: it must not keep anybody from saving.
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
