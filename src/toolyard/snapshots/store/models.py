"""The data types of snapshots: plain, immutable records."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolyard.core.errors import SystemFault

MAX_NOTES = 1_000
"""Notes kept with one snapshot; more are only counted."""
AGENT_SEPARATOR = ", "
"""Between the names of a snapshot's agents. Names of agents contain neither commas nor spaces."""


@dataclass(frozen=True, slots=True)
class PathNote:
    """A path, relative to the root, that was skipped or failed, and why."""

    path: bytes
    why: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What a snapshot contains, in numbers."""

    files: int = 0
    folders: int = 0
    links: int = 0
    skipped: int = 0
    """Entries whose content no snapshot can contain: sockets, unreadable files, other mounts."""
    torn: int = 0
    """Files that kept changing while they were read; the content read is stored, and marked."""
    size: int = 0
    """Bytes of all files together, by their sizes."""

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
    """One immutable copy of a folder. `number` orders them, `id` names them."""

    number: int
    id: str
    root: str
    """The folder that it was taken of."""
    time_ns: int
    agent: str
    """The agents whose changes it holds, joined by `AGENT_SEPARATOR`; empty if no agent is known to be the author."""
    reason: str
    parent: str | None
    """The previous snapshot of the same folder."""
    tree: bytes
    """The digest of its root folder: equal trees have equal digests."""
    mode: int
    """The mode of the root folder itself."""
    counts: Counts
    notes: tuple[PathNote, ...] = ()

    @property
    def agents(self) -> tuple[str, ...]:
        """The names in `agent`."""
        return tuple(self.agent.split(AGENT_SEPARATOR)) if self.agent else ()


@dataclass(frozen=True, slots=True)
class SnapshotCost:
    """What taking a snapshot cost."""

    files_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    """Objects appended to packs; without the snapshot's own record and a few pages of the index."""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """The snapshot that `create` took or found, and its cost."""

    snapshot: Snapshot
    cost: SnapshotCost
    changed: bool
    """Whether it differs from its parent."""
    proposals: tuple[bytes, ...] = ()
    """Folders with a `.toolyardignore` that the user has not accepted in its current form."""


class DamagedObjectError(SystemFault):
    """Stored bytes changed or are missing. `digest` names the object."""

    def __init__(self, digest: bytes, why: str) -> None:
        super().__init__(
            f"A stored object ({digest.hex()[:12]}) is damaged: {why}.",
            hint="`toolyard snapshot verify` lists the damaged files; everything else can still be restored.",
        )
        self.digest = digest
        self.why = why
