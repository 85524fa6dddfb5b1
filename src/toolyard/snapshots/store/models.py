"""What a snapshot is to whoever asks for one: plain, immutable records."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolyard.core.errors import SystemFault

MAX_NOTES = 1_000
"""Notes kept with one snapshot; how many there were is counted all the same."""


@dataclass(frozen=True, slots=True)
class PathNote:
    """Something that could not be kept, or was left alone: `path` is relative to the root."""

    path: bytes
    why: str


@dataclass(frozen=True, slots=True)
class Counts:
    files: int = 0
    folders: int = 0
    links: int = 0
    skipped: int = 0
    """Entries whose content no snapshot holds: sockets, unreadable files, other mounts."""
    torn: int = 0
    """Files that kept changing while they were read; what was read is held, and marked."""
    size: int = 0
    """Bytes of all files together, as their sizes say."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.files + other.files,
            self.folders + other.folders,
            self.links + other.links,
            self.skipped + other.skipped,
            self.torn + other.torn,
            self.size + other.size,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One immutable picture of a folder. `number` orders them, `id` names them."""

    number: int
    id: str
    root: str
    """The folder it was taken of."""
    time_ns: int
    agent: str
    reason: str
    parent: str | None
    """The snapshot of the same folder before this one."""
    tree: bytes
    """The digest of its topmost folder: equal trees have equal digests."""
    mode: int
    """The mode of the topmost folder itself."""
    counts: Counts
    notes: tuple[PathNote, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotCost:
    """What taking a snapshot cost."""

    files_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    """Objects appended to packs. What is told about the snapshot comes on top, and a few pages of the index."""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    snapshot: Snapshot
    cost: SnapshotCost
    changed: bool
    """Whether it differs from its parent."""
    proposals: tuple[bytes, ...] = ()
    """Folders with a `.toolyardignore` that the user has not accepted as it is."""


class DamagedObjectError(SystemFault):
    """Stored bytes are not what they were, or not there any more. `digest` names the object."""

    def __init__(self, digest: bytes, why: str) -> None:
        super().__init__(
            f"A stored object ({digest.hex()[:12]}) is damaged: {why}.",
            hint="`toolyard snapshot verify` names the files that are harmed; everything else can still be restored.",
        )
        self.digest = digest
        self.why = why
